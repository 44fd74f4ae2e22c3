"""Of several chat templates in a checkpoint, all clients get the one that transformers takes."""

import json
import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from transformers import AutoProcessor, AutoTokenizer

from mm_api.families.llava import PROMPT
from mm_runtime.base.chat_template import Turn
from mm_runtime.base.chat_template_files import (
    NAMED_FOLDER,
    find_chat_template,
    locate_tools_template,
    special_tokens,
)
from mm_runtime.gateway.prompts.templates import load_template
from mm_runtime.serving.prompts.writers import PromptWriter
from support.cases import cases
from support.tiny_llava import CHECKPOINT

PLACES = (
    "processor_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "tokenizer_config.json",
)


def _put(folder: Path, place: str) -> None:
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
    "places", [one for size in (1, 2, 4) for one in combinations(PLACES, size)], ids=" and ".join
)
def test_the_same_template_as_in_transformers(tmp_path: Path, places: tuple[str, ...]) -> None:
    """The gateway, Triton's preprocessing and transformers agree.

    That for tools, by which trtllm-serve writes them, is the tokenizer's.
    """
    folder = _bare(tmp_path / "checkpoint")
    for place in places:
        _put(folder, place)
    theirs = AutoProcessor.from_pretrained(folder)
    expected = theirs.chat_template or theirs.tokenizer.chat_template
    assert find_chat_template(folder) == expected
    assert load_template(folder, PROMPT).render([Turn("user", ("Hello",))]) == expected
    assert PromptWriter.from_folder(folder, None, PROMPT).write("Hello", 0) == expected
    assert _for_tools(folder) == _taken(lambda: theirs.tokenizer.get_chat_template(None, [{}]))


@pytest.mark.filterwarnings("ignore:unclosed file", "ignore:Exception ignored in")  # theirs
@pytest.mark.parametrize("beside", [(), PLACES[:1], PLACES[2:3], PLACES[3:]], ids=" and ".join)
@pytest.mark.parametrize("names", [("tool_use",), ("default",), ("rag", "default", "tool_use")])
def test_templates_in_a_folder_of_their_own(
    tmp_path: Path, names: tuple[str, ...], beside: tuple[str, ...]
) -> None:
    folder = _bare(tmp_path / "checkpoint")
    for place in beside:
        _put(folder, place)
    (folder / NAMED_FOLDER).mkdir()
    for name in names:
        (folder / NAMED_FOLDER / f"{name}.jinja").write_text(f"folder's {name}")
    theirs = AutoProcessor.from_pretrained(folder)
    expected = _taken(lambda: theirs._resolve_chat_template(None))
    assert {find_chat_template(folder, with_tools=one) for one in (False, True)} == {expected}
    assert _for_tools(folder) == _taken(lambda: theirs.tokenizer.get_chat_template(None, [{}]))


def _taken(get: Callable[[], str]) -> str | None:
    """Return a template; None where transformers refuses to choose one."""
    try:
        return get()
    except ValueError:
        return None


def _for_tools(folder: Path) -> str | None:
    found = locate_tools_template(folder)
    return None if found is None else found.source


def test_the_template_for_tools_of_several(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer_config.json"
    named = [{"name": "default", "template": "B"}, {"name": "tool_use", "template": "A"}]
    file.write_text(json.dumps({"chat_template": named}))
    assert (_for_tools(tmp_path), find_chat_template(tmp_path)) == ("A", "B")
    file.write_text(json.dumps({"chat_template": named[:1]}))
    assert _for_tools(tmp_path) == "B"


@pytest.mark.parametrize("place", [None, *PLACES[:-1]])
def test_conversations_with_tools_take_what_a_processor_says(
    tmp_path: Path, place: str | None
) -> None:
    """Only where no file is a processor's, the tokenizer's template for tools is taken for them."""
    folder = _bare(tmp_path / "checkpoint")
    named = [{"name": "default", "template": "B"}, {"name": "tool_use", "template": "A"}]
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": named}))
    if place is not None:
        _put(folder, place)
    processor = AutoProcessor.from_pretrained(folder)
    theirs = processor if processor.chat_template else processor.tokenizer
    question = [{"role": "user", "content": "Hello"}]
    written = [
        theirs.apply_chat_template(question, tools=tools, tokenize=False) for tools in (None, [{}])
    ]

    for with_tools, expected in enumerate(written):
        template = load_template(folder, PROMPT, with_tools=bool(with_tools))
        assert expected == template.render([Turn("user", ("Hello",))])


@cases(
    "config map_file",
    {
        "alone": (
            {"bos_token": "<b>", "sep_token": {"__type": "AddedToken", "content": "<x>"}},
            {},
        ),
        "of the map": ({"bos_token": "<b>"}, {"bos_token": {"content": "<c>"}}),
        "described": ({"bos_token": "<b>", "added_tokens_decoder": {}}, {"bos_token": "<c>"}),
        "none": ({"bos_token": None, "pad_token": ""}, {}),
    },
)
def test_special_tokens_are_those_of_transformers(
    tmp_path: Path, config: dict[str, object], map_file: dict[str, object]
) -> None:
    for name in ("tokenizer.json", "config.json"):
        shutil.copy(CHECKPOINT / name, tmp_path / name)
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **config})
    )
    if map_file:
        (tmp_path / "special_tokens_map.json").write_text(json.dumps(map_file))

    assert AutoTokenizer.from_pretrained(tmp_path).special_tokens_map == special_tokens(tmp_path)


@pytest.mark.parametrize("content", ["[]", '{"chat_template": 3}', '{"chat_template": [7]}'])
def test_what_is_no_template_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)
    assert find_chat_template(tmp_path) is None
