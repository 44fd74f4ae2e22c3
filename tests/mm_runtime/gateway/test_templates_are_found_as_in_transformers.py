"""Of several chat templates in a checkpoint, all clients get the one that transformers takes."""

import json
import shutil
from itertools import combinations
from pathlib import Path

import pytest
from transformers import AutoProcessor, AutoTokenizer

from mm_api.families.llava import PROMPT
from mm_runtime.gateway.prompts.templates import Turn, load_template
from mm_runtime.serving.prompts.chat_template import find_chat_template, find_tools_template
from mm_runtime.serving.prompts.writers import PromptWriter
from support.tiny_llava import CHECKPOINT

PLACES = (
    "processor_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "tokenizer_config.json",
)


def _put(folder: Path, place: str) -> None:
    """Write a template whose text is the name of its file."""
    file = folder / place
    if place.endswith(".jinja"):
        file.write_text(place)
        return
    content = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps({**content, "chat_template": place}))


def _bare(folder: Path) -> Path:
    shutil.copytree(CHECKPOINT, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    for place in PLACES:
        file = folder / place
        if place.endswith(".jinja"):
            file.unlink(missing_ok=True)
        elif file.is_file():
            content = json.loads(file.read_text())
            content.pop("chat_template", None)
            file.write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    "places",
    [one for size in (1, 2, 4) for one in combinations(PLACES, size)],
    ids=" and ".join,
)
def test_the_same_template_as_in_transformers(tmp_path: Path, places: tuple[str, ...]) -> None:
    """The gateway, Triton's preprocessing and transformers agree."""
    folder = _bare(tmp_path / "checkpoint")
    for place in places:
        _put(folder, place)
    theirs = AutoProcessor.from_pretrained(folder)
    expected = theirs.chat_template or theirs.tokenizer.chat_template
    assert find_chat_template(folder) == expected
    assert load_template(folder, PROMPT).render([Turn("user", ("Hello",))]) == expected
    assert PromptWriter.from_folder(folder, None, PROMPT).write("Hello", 0) == expected


@pytest.mark.parametrize(
    "places",
    [one for size in (1, 2, 4) for one in combinations(PLACES, size)],
    ids=" and ".join,
)
def test_the_template_for_tools_is_the_tokenizers(tmp_path: Path, places: tuple[str, ...]) -> None:
    """As trtllm-serve takes it for them; a processor's files alone are none."""
    folder = _bare(tmp_path / "checkpoint")
    for place in places:
        _put(folder, place)
    theirs = AutoTokenizer.from_pretrained(folder)
    expected = theirs.get_chat_template(None, tools=[{}]) if theirs.chat_template else None
    assert find_tools_template(folder) == expected


def test_the_template_for_tools_of_several(tmp_path: Path) -> None:
    """The one of this name; where there is none, the default."""
    file = tmp_path / "tokenizer_config.json"
    named = [{"name": "default", "template": "B"}, {"name": "tool_use", "template": "A"}]
    file.write_text(json.dumps({"chat_template": named}))
    assert (find_tools_template(tmp_path), find_chat_template(tmp_path)) == ("A", "B")
    file.write_text(json.dumps({"chat_template": named[:1]}))
    assert find_tools_template(tmp_path) == "B"


def test_the_default_of_several_named_templates(tmp_path: Path) -> None:
    """As transformers takes it when none is requested."""
    named = [{"name": "tools", "template": "A"}, {"name": "default", "template": "B"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert find_chat_template(tmp_path) == "B"


@pytest.mark.parametrize("content", ["[]", '{"chat_template": 3}', '{"chat_template": [7]}'])
def test_what_is_no_template_is_passed_over(tmp_path: Path, content: str) -> None:
    """Wrong types are no template."""
    (tmp_path / "tokenizer_config.json").write_text(content)
    assert find_chat_template(tmp_path) is None
