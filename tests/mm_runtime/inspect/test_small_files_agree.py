"""Small files that are no such files, or are of another checkpoint, are refused before a build."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.model_facts import InspectReason
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.cases import cases
from support.tiny_llava import CHECKPOINT

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
SMALL = (
    *("config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"),
    *("processor_config.json", "generation_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "chat_template.json", "video_preprocessor_config.json", "vocab.json"),
    *("chat_template.jinja", "merges.txt", "llm/tokenizer.json", "vision_tower/config.json"),
)
OBJECTS = tuple(name for name in SMALL if not name.endswith((".txt", ".jinja", "tokenizer.json")))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CHECKPOINT, tmp_path / "checkpoint"))


def _message(checkpoint: Path) -> str:
    with pytest.raises(InspectRefusedError) as refused:
        inspect(checkpoint, InspectOptions())
    return refused.value.message


def _put(checkpoint: Path, name: str, content: bytes) -> None:
    (checkpoint / name).parent.mkdir(exist_ok=True)
    (checkpoint / name).write_bytes(content)


@pytest.mark.parametrize("name", SMALL)
@cases(
    "content words",
    {
        "pointer": (POINTER.encode(), "is a pointer of Git LFS"),
        "page": (b"\n<!DOCTYPE html><html>", "is a page of HTML"),
        "mark": (b"\xef\xbb\xbf{}", "begins with a byte-order mark"),
        "binary": (b"\x80\x04binary", "is not text: byte 0 is not UTF-8"),
    },
)
def test_other_files_under_a_name_are_refused(
    checkpoint: Path, name: str, content: bytes, words: str
) -> None:
    _put(checkpoint, name, content)
    assert f"{name.rpartition('/')[2]} {words}" in _message(checkpoint)


@pytest.mark.parametrize("name", OBJECTS)
@cases(
    "content words",
    {
        "empty": (b"", "it is empty"),
        "cut": (b'{"a": [1', "is not valid JSON"),
        "list": (b"[1]", "holds a list; expected a JSON object"),
        "no-number": (b'{"a": NaN}', "holds NaN"),
    },
)
def test_what_is_no_object_is_refused(
    checkpoint: Path, name: str, content: bytes, words: str
) -> None:
    _put(checkpoint, name, content)
    message = _message(checkpoint)
    assert name.rpartition("/")[2] in message
    assert words in message


def test_infinity_is_a_limit(checkpoint: Path) -> None:
    """Published configurations write it (`time_step_limit` of Mamba's)."""
    _edit("config.json", lambda it: it.update(time_step_limit=[0.0, float("inf")]))(checkpoint)
    assert inspect(checkpoint, InspectOptions()).family == "llava"


Damage = Callable[[Path], None]


def _edit(name: str, change: Callable[[dict[str, Any]], object]) -> Damage:
    def edit(checkpoint: Path) -> None:
        file = checkpoint / name
        value = json.loads(file.read_text()) if file.is_file() else {}
        change(value)
        file.write_text(json.dumps(value))

    return edit


def _put_in_text(value: dict[str, Any], key: str, number: object) -> None:
    value["text_config"][key] = number


def _number(key: str, number: object) -> Damage:
    if key.startswith("r") and key != "rescale_factor":
        return _edit("config.json", lambda it: _put_in_text(it, key, number))

    def edit(checkpoint: Path) -> None:
        (checkpoint / "processor_config.json").unlink()
        _edit("preprocessor_config.json", lambda it: it.update({key: number}))(checkpoint)

    return edit


def _two_templates(checkpoint: Path) -> None:
    (checkpoint / "additional_chat_templates").mkdir()
    (checkpoint / "additional_chat_templates/tool_use.jinja").write_text("{{ messages }}")
    (checkpoint / "chat_template.json").write_text('{"chat_template": "x"}')


def _without_image(value: dict[str, Any]) -> None:
    value["added_tokens"] = [one for one in value["added_tokens"] if one["content"] != "<image>"]
    value["model"]["vocab"].pop("<image>", None)


def _adding(token: int, text: str) -> Damage:
    return _edit(
        "tokenizer.json",
        lambda it: it["added_tokens"].append(
            {**it["added_tokens"][-1], "id": token, "content": text}
        ),
    )


DAMAGES: dict[str, tuple[Damage, tuple[str, ...]]] = {
    "tokenizer-of-no-model": (
        _edit("tokenizer.json", lambda it: it.pop("model")),
        ("tokenizer.json cannot be read", "Copy the file again"),
    ),
    "tokenizer-cut": (
        lambda checkpoint: (
            (checkpoint / "tokenizer.json").write_text('{"version": "1.0", ') and None
        ),
        ("tokenizer.json cannot be read", "EOF"),
    ),
    "vocabulary-too-large": (
        _edit("tokenizer.json", lambda it: it["model"]["vocab"].update(extra=91)),
        ("tokenizer.json has the token 'extra' with the id 91", "vocab_size is 91", "no row"),
    ),
    "no-end-token": (
        _edit("tokenizer_config.json", lambda it: it.pop("eos_token")),
        ("tokenizer_config.json names no eos_token",),
    ),
    "unknown-end-token": (
        _edit("tokenizer_config.json", lambda it: it.update(eos_token="<|im_end|>")),
        ("tokenizer_config.json eos_token is '<|im_end|>'", "no such token"),
    ),
    "unknown-begin-token": (
        _edit("tokenizer_config.json", lambda it: it.update(bos_token={"content": "<bos>"})),
        ("tokenizer_config.json bos_token is '<bos>'", "no such token"),
    ),
    "unknown-padding": (
        _edit("tokenizer_config.json", lambda it: it.update(pad_token="[PAD]")),
        ("tokenizer_config.json pad_token is '[PAD]'", "no such token"),
    ),
    "added-token-in-the-place-of-another": (
        _adding(5, "<|extra|>"),
        ("tokenizer.json adds the token '<|extra|>' with the id 5", "the token has the id 91"),
    ),
    "added-token-twice": (
        _adding(92, "<image>"),
        ("tokenizer.json adds the token '<image>' with the id 92", "the token has the id 4"),
    ),
    "added-token-behind-a-gap": (
        _adding(10**4, "<|extra|>"),
        ("tokenizer.json adds the token '<|extra|>' with the id 10000", "that id is None"),
    ),
    **{
        f"added-by-another-file-{name}": (
            _edit(
                "tokenizer_config.json",
                lambda it, one=one: it.update(added_tokens_decoder={one[0]: {"content": one[1]}}),
            ),
            (f"tokenizer_config.json adds the token {one[1]!r} with the id {one[0]}",),
        )
        for name, one in {"id": ("5", "<image>"), "text": ("4", "<img>")}.items()
    },
    "image-is-another-token": (
        _edit("config.json", lambda it: it.update(image_token_index=2)),
        ("config.json image_token_id is 2", "'<image>' has the id"),
    ),
    "image-is-no-token": (
        _edit("tokenizer.json", _without_image),
        ("config.json image_token_id is", "no token with this id"),
    ),
    "end-outside": (
        _edit("generation_config.json", lambda it: it.update(eos_token_id=[-1, 10**6])),
        ("generation_config.json eos_token_id is [-1, 1000000]", "expected a number from 0"),
    ),
    "end-is-a-text": (
        _edit("generation_config.json", lambda it: it.update(eos_token_id="</s>")),
        ("generation_config.json eos_token_id is '</s>'", "expected the id of a token"),
    ),
    "end-outside-in-a-part": (
        _edit("config.json", lambda it: _put_in_text(it, "eos_token_id", 10**6)),
        ("config.json text_config.eos_token_id is 1000000",),
    ),
    "patches-of-another-tower": (
        _edit("processor_config.json", lambda it: it.update(patch_size=32)),
        ("processor_config.json patch_size is 32", "config.json has 14"),
    ),
    "features-of-another-tower": (
        _edit("processor_config.json", lambda it: it.update(vision_feature_select_strategy="full")),
        ("processor_config.json vision_feature_select_strategy is 'full'", "'default'"),
    ),
    **{
        f"number-{key}-{number}": (_number(key, number), (f"{key} is {number!r}; expected",))
        for key, number in (
            *(("rope_theta", 0), ("rms_norm_eps", "1e-6"), ("rms_norm_eps", float("inf"))),
            *(("image_std", [1, 0, 1]), ("image_mean", [0.5, 0.5]), ("rescale_factor", False)),
        )
    },
    "adapter-beside-the-weights": (
        _edit("adapter_config.json", lambda it: it.update(r=8)),
        ("holds adapter_config.json", "spec.engine.lora"),
    ),
    "two-ways-of-named-templates": (
        _two_templates,
        ("chat_template.json stands beside additional_chat_templates/",),
    ),
    "image-token-of-another-processor": (
        _edit("processor_config.json", lambda it: it.update(image_token="<|image|>")),
        ("processor_config.json image_token is '<|image|>'", "'<image>'"),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_files_of_two_checkpoints_are_refused(checkpoint: Path, name: str) -> None:
    damage, words = DAMAGES[name]
    damage(checkpoint)
    message = _message(checkpoint)
    assert all(word in message for word in words), message


LEGITIMATE: dict[str, Damage] = {
    "several-ends": _edit("generation_config.json", lambda it: it.update(eos_token_id=[2, 10**6])),
    "another-end-than-the-tokenizers": _edit(
        "generation_config.json", lambda it: it.update(eos_token_id=1)
    ),
    "padding-outside": _edit("generation_config.json", lambda it: it.update(pad_token_id=-1)),
    "no-begin-token": _edit("tokenizer_config.json", lambda it: it.update(bos_token=None)),
    "special-token-without-a-row": _edit(
        "tokenizer.json",
        lambda it: it["added_tokens"].append(
            {**it["added_tokens"][-1], "id": 91, "content": "<|extra|>", "special": True}
        ),
    ),
    "more-rows-than-tokens": _edit(
        "tokenizer.json", lambda it: it["model"]["vocab"].popitem() and None
    ),
}


@pytest.mark.parametrize("name", LEGITIMATE)
def test_what_published_checkpoints_have_is_taken(checkpoint: Path, name: str) -> None:
    LEGITIMATE[name](checkpoint)
    assert inspect(checkpoint, InspectOptions()).family == "llava"


OWN = (CHECKPOINT / "chat_template.jinja").read_text()
LIST = (
    "{% for m in messages %}{% for p in m.content %}{{ p.text if p.type == 'text' else MARK }}"
    "{% endfor %}{% endfor %}"
)

TEXT_ONLY = (
    "{% set said = messages[0].content %}{{ said }}"
    "{{ raise_exception('text only') if '<image>' in said or said is not string }}"
)


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
