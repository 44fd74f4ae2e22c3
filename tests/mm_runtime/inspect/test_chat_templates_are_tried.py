"""A chat template that could not write a chat is refused before a build, with file and line."""

import json
import shutil
from pathlib import Path

import pytest

from mm_api.documents.model_facts import InspectReason
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.tiny_llava import CHECKPOINT

OWN = (CHECKPOINT / "chat_template.jinja").read_text()
LIST = (
    "{% for m in messages %}{% for p in m.content %}{{ p.text if p.type == 'text' else MARK }}"
    "{% endfor %}{% endfor %}"
)

TEXT_ONLY = (
    "{% set said = messages[0].content %}{{ said }}"
    "{{ raise_exception('text only') if '<image>' in said or said is not string }}"
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CHECKPOINT, tmp_path / "checkpoint"))


def _refusal(checkpoint: Path) -> InspectRefusedError:
    with pytest.raises(InspectRefusedError) as refused:
        inspect(checkpoint, InspectOptions())
    return refused.value


REFUSED = {
    "no-end": ("{% for m in messages %}\n{{ m.content }}", "line 2", "Jinja was looking for"),
    "unknown-tag": ("\n\n{% trans %}", "line 3", "unknown tag 'trans'"),
    "unknown-filter": ("{{ messages }}\n{{ 'a' | shorten }}", "line 2", "No filter named"),
    "unknown-test": ("{{ 1 is prime }}", "line 1", "No test named 'prime'"),
    "unknown-function": (f"\n{{{{ clock() }}}}{OWN}", "line 2", "'clock' is undefined"),
    "one-for-a-system": (
        OWN + "\n{% if messages[0].role == 'system' %}{{ clock() }}{% endif %}",
        "messages of the system and the user",
        "'clock' is undefined",
    ),
    "filter-for-a-system": (
        OWN + "\n{% if messages[0].role == 'system' %}{{ 1 | shorten }}{% endif %}",
        "messages of the system and the user",
        "No filter named 'shorten'",
    ),
    "several-turns": (
        OWN + "{% if messages | length > 2 %}{{ clock() }}{% endif %}",
        "several turns",
        "'clock' is undefined",
    ),
    "refuses-all": ("{{ raise_exception('never') }}", "line 1", "never"),
    "refuses-images": (TEXT_ONLY, "a message with <image>", "text only"),
    "fails-on-text": (
        LIST.replace("MARK", "'<image>'") + "{{ messages[0].content[1].text + '' }}",
        "a message of the user",
        "list object has no element 1",
    ),
    "no-text": ("USER: <image> ASSISTANT:", "leaves 'a probe of", "out of a message with <image>"),
    "no-image": (LIST.replace("MARK", "'<|x|>'"), "leaves", "out of a message with <image>"),
    "empty": ("", "leaves", "out of a message"),
    "huge": ("x" * (1024 * 1024 + 1) + OWN, "characters", "expected at most 1048576"),
    "escape": (OWN + "{{ ''.__class__.__mro__ }}", "line", "is unsafe"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_faulty_template_is_refused(checkpoint: Path, name: str) -> None:
    """It names the file, the line, what was found, and where to read what is expected."""
    source, *words = REFUSED[name]
    (checkpoint / "chat_template.jinja").write_text(source)

    refused = _refusal(checkpoint)

    assert refused.reason == InspectReason.CONFIG_INVALID
    assert refused.message.startswith("chat_template.jinja: ")
    assert all(word in refused.message for word in words), refused.message


TAKEN = {
    "the-date": "{%- set today = strftime_now('%Y-%m-%d') -%}" + OWN,
    "tools": "{%- if tools is not none -%}{{ tools | tojson }}{%- endif -%}" + OWN,
    "training": "{% generation %}" + OWN + "{% endgeneration %}",
    "a-list-of-parts": LIST.replace("MARK", "'<image>'"),
    "refuses-a-system": OWN
    + "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}",
    "refuses-text-alone": OWN
    + "{% if '<image>' not in messages[0].content and messages[0].content is string %}"
    "{{ raise_exception('an image, please') }}{% endif %}",
    "fails-on-a-system-of-parts": LIST.replace("MARK", "'<image>'")
    + "{% if messages[0].role == 'system' %}{{ 'S: ' + messages[0].content }}{% endif %}",
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_pods_can_serve_is_taken(checkpoint: Path, name: str) -> None:
    """Templates may use all of transformers' environment, and refuse what they do not know."""
    (checkpoint / "chat_template.jinja").write_text(TAKEN[name])

    assert inspect(checkpoint, InspectOptions()).family == "llava"


def test_a_checkpoint_without_a_template_is_refused(checkpoint: Path) -> None:
    """Its family has none of its own, so no chat could be written: it says where one belongs."""
    (checkpoint / "chat_template.jinja").unlink()

    refused = _refusal(checkpoint)

    assert refused.reason == InspectReason.CONFIG_MISSING
    assert "holds no chat template: neither chat_template.jinja nor" in refused.message


@pytest.mark.parametrize("name", ["default", "tool_use"])
def test_each_of_a_tokenizers_templates_is_tried(checkpoint: Path, name: str) -> None:
    """The gateway compiles the one for tools, too."""
    (checkpoint / "chat_template.jinja").unlink()
    named = {"default": OWN, "tool_use": OWN, name: "{{ nothing"}
    file = checkpoint / "tokenizer_config.json"
    listed = [{"name": key, "template": text} for key, text in named.items()]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": listed}))

    assert _refusal(checkpoint).message.startswith("tokenizer_config.json: line 1 of the chat")
