"""Calls of tools are read as the text comes, however it is cut; what is no call stays text."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm_api.families.prompt import PromptStyle
from mm_runtime.base.chat_template import Call, Turn
from mm_runtime.gateway.api.tool_dialects import HERMES, LLAMA, MISTRAL, ToolDialect
from mm_runtime.gateway.api.tool_reader import CallArguments, CallBegan, CallReader, Said
from mm_runtime.gateway.prompts.templates import ChatTemplate
from support import tool_templates
from support.cases import cases

STYLE = PromptStyle("")
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
PLAIN = "{% for message in messages %}{{ message.role }}: {{ message.content }}{% endfor %}"
TOOL = {"name": "weather", "description": "", "parameters": {"type": "object"}}


def _read(
    dialect: ToolDialect, text: str, size: int, most: int | None = None
) -> tuple[str, list[tuple[str, str]]]:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return _read_pieces(dialect, pieces, most)


def _read_pieces(
    dialect: ToolDialect, pieces: Sequence[str], most: int | None = None
) -> tuple[str, list[tuple[str, str]]]:
    reader = CallReader(dialect, most=most)
    parts = [part for piece in pieces for part in reader.push(piece)]
    parts += reader.end()
    said, calls = "", list[tuple[str, str]]()
    for part in parts:
        match part:
            case Said():
                said += part.text
            case CallBegan():
                assert part.index == len(calls)
                calls.append((part.name, ""))
            case CallArguments():
                name, arguments = calls[part.index]
                calls[part.index] = (name, arguments + part.text)
    assert len(calls) == reader.calls
    return said, calls


ARGUMENTS = '{"city": "Ulm } \\" ]", "days": [1, {"a": {}}]}'
CALL = '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
CASES = [
    pytest.param(
        HERMES,
        f'Well.\n<tool_call>\n{{"name": "weather", "arguments": {ARGUMENTS}}}\n</tool_call>',
        "Well.\n",
        [("weather", ARGUMENTS)],
        id="hermes",
    ),
    pytest.param(
        HERMES,
        '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>\n'
        '<tool_call>{"name":"b","arguments":{"x":1}}</tool_call>',
        "",
        [("a", "{}"), ("b", '{"x":1}')],
        id="hermes-two",
    ),
    pytest.param(
        HERMES,
        '<tool_call>{"arguments": {"x": 1}, "name": "a"}</tool_call> done',
        " done",
        [("a", '{"x": 1}')],
        id="hermes-other-order",
    ),
    pytest.param(
        HERMES,
        "<tool_call>{not json}</tool_call>",
        "<tool_call>{not json}</tool_call>",
        [],
        id="hermes-broken",
    ),
    pytest.param(HERMES, "a <tool <tool_ca", "a <tool <tool_ca", [], id="hermes-no-call"),
    pytest.param(
        HERMES, '<tool_call>{"name": "a", "ar', '<tool_call>{"name": "a", "ar', [], id="cut-head"
    ),
    pytest.param(
        HERMES, '<tool_call>{"name": "a", "arguments": {"x', "", [("a", '{"x')], id="cut-arguments"
    ),
    pytest.param(
        MISTRAL,
        f'[TOOL_CALLS] [{{"name": "weather", "arguments": {ARGUMENTS}, "id": "abcdefghi"}}, '
        '{"name": "b", "arguments": {}}]',
        "",
        [("weather", ARGUMENTS), ("b", "{}")],
        id="mistral",
    ),
    pytest.param(
        HERMES,
        f"{CALL} and <tool_call>{{}}</tool_call>\n{CALL}\n",
        " and <tool_call>{}</tool_call>\n",
        [("a", "{}"), ("a", "{}")],
        id="hermes-text-between-calls",
    ),
    pytest.param(MISTRAL, "[TOOL_CALLS] ", "[TOOL_CALLS] ", [], id="mistral-opening-alone"),
    pytest.param(MISTRAL, "No [TOOL] here", "No [TOOL] here", [], id="mistral-no-call"),
    pytest.param(
        LLAMA,
        f'\n{{"name": "weather", "parameters": {ARGUMENTS}}}',
        "",
        [("weather", ARGUMENTS)],
        id="llama",
    ),
    pytest.param(LLAMA, '{"colour": "red"}', '{"colour": "red"}', [], id="llama-other-json"),
    pytest.param(LLAMA, 'It is {"name": 1}', 'It is {"name": 1}', [], id="llama-text"),
]


@pytest.mark.parametrize(("dialect", "text", "said", "calls"), CASES)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_calls(
    dialect: ToolDialect, text: str, said: str, calls: list[tuple[str, str]], size: int
) -> None:
    """The same whether a token is a character or the entire answer."""
    assert _read(dialect, text, size) == (said, calls)


FRAGMENTS = {
    HERMES: (CALL, "<tool_call>", "{}", "</tool_call>", " and", " ", "\n", "<tool"),
    MISTRAL: ("[TOOL_CALLS]", "[", '{"name": "a", "arguments": {}}', ", ", "]", " and", " "),
    LLAMA: ('{"name": "a", "parameters": {}}', "{", "}", "; ", " and", " ", "\n"),
}


@pytest.mark.parametrize("dialect", FRAGMENTS, ids=["hermes", "mistral", "llama"])
@settings(max_examples=100)
@given(st.data(), st.sampled_from([None, 1]))
def test_pieces_change_nothing(dialect: ToolDialect, data: st.DataObject, most: int | None) -> None:
    """What is said and called is that of the text, in whichever pieces it comes."""
    pieces = data.draw(st.lists(st.sampled_from(FRAGMENTS[dialect]), max_size=8))
    text = "".join(pieces)
    expected = _read(dialect, text, len(text) + 1, most)
    assert expected == _read_pieces(dialect, pieces, most) == _read(dialect, text, 1, most)


@pytest.mark.parametrize("dialect", [HERMES, MISTRAL, LLAMA], ids=["hermes", "mistral", "llama"])
def test_text_is_not_held_back(dialect: ToolDialect) -> None:
    """A stream says each piece when it comes, where it cannot begin a call."""
    reader = CallReader(dialect)
    pieces = ["It ", "rains", " in", " Ulm."]
    assert [reader.push(piece) for piece in pieces] == [[Said(piece)] for piece in pieces]


@pytest.mark.parametrize("size", [1, 1000])
def test_no_more_calls_than_wanted(size: int) -> None:
    """`parallel_tool_calls: false` keeps the first."""
    one = '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
    assert _read(HERMES, one * 3, size, most=1) == ("", [("a", "{}")])


@cases(
    "source dialect",
    {
        "hermes": (tool_templates.HERMES, HERMES),
        "mistral": (tool_templates.MISTRAL, MISTRAL),
        "llama": (tool_templates.LLAMA, LLAMA),
        "no-tools": (PLAIN, None),
        "tools-but-no-calls": (PLAIN + "{{ tools }}", None),
    },
)
def test_templates_show_their_dialect(source: str, dialect: ToolDialect | None) -> None:
    """No list of families: what the template writes of a call says how calls are written."""
    template = ChatTemplate(source, SPECIAL, STYLE)
    assert template.dialect == dialect
    if dialect is None:
        return
    call = Call("abcdefghi", "weather", {"city": "Ulm", "days": [1]})
    turns = [
        Turn("user", ("Rain?",)),
        Turn("assistant", (), (call,)),
        Turn("tool", ("dry",), answers="abcdefghi", name="weather"),
    ]
    prompt = template.render(turns, [TOOL])
    assert prompt.startswith("<s>")
    assert json.dumps(TOOL["name"]) in prompt
    # What the template writes of a call is read as that call.
    written = prompt[prompt.index(dialect.opening or '{"name": "weather", "par') :]
    _, calls = _read(dialect, written.split("</s>")[0], 3)
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [
        ("weather", {"city": "Ulm", "days": [1]})
    ]
    assert "dry" in prompt
