"""Conversations -> the prompt text the model was trained on, through the checkpoint's template.

Templates come with checkpoints, so they are rendered in jinja2's sandbox. Image and video parts
become the family's placeholders.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import jinja2
from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from mm_api.families.prompt import PromptStyle
from mm_runtime.gateway.api.tool_dialects import PROBE, ToolDialect, dialect_of
from mm_runtime.serving.prompts.chat_template import (
    find_chat_template,
    find_tools_template,
    read_object,
)

_PROBE = "a probe of the template"
_OPENED: Mapping[str, Any] = MappingProxyType({"add_generation_prompt": True})
_NO_VARIABLES: Mapping[str, Any] = MappingProxyType({})
_PROBE_ID = "probe0000"
"""Nine letters and digits: templates of Mistral's take no other ids."""


_FAILURES = (
    *(TemplateError, TypeError, ValueError, LookupError),
    *(ArithmeticError, AttributeError, RecursionError),
)
"""Of a template on a conversation or on variables of a client: it may count up to one of them, or
divide by it."""


class TemplateRefusedError(Exception):
    """The template cannot render this conversation, for example an order of roles it forbids."""


class Media(Enum):
    """What stands in a message besides text; the value is its type in templates."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the assistant has called."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: its role and its parts in order.

    Attributes:
        calls: of tools, by the assistant.
        answers: id of the call that a message of a tool answers.
        name: of the tool.
    """

    role: str
    parts: tuple[str | Media, ...]
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    name: str | None = None


Tool = Mapping[str, object]
"""A function that the model may call, as templates are given it."""


class ChatTemplate:
    """The chat template of one checkpoint."""

    def __init__(
        self,
        source: str,
        special_tokens: dict[str, str],
        style: PromptStyle,
    ) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], autoescape=False
        )
        environment.globals["raise_exception"] = _raise
        environment.filters["tojson"] = _to_json
        self._template = environment.from_string(source)
        self._special = special_tokens
        self._style = style
        self._takes_parts = self._detect_parts()
        self.takes_tools = self._writes(Turn("tool", (_PROBE,)))
        """Messages of the role `tool` stand in the prompt."""

        self.takes_answers = self._writes(Turn("tool", (_PROBE,), answers=_PROBE_ID))
        """The same of those that name the call that they answer: some templates fail without."""

        self.writes_names = self._detect_names()
        """Messages of the role `tool` stand there with the tool's name."""

        self.dialect = self._detect_dialect()
        """How calls of tools are written; None: tools have no place in the prompt."""

    def render(
        self,
        turns: Sequence[Turn],
        tools: Sequence[Tool] = (),
        variables: Mapping[str, Any] = _NO_VARIABLES,
        *,
        opens_answer: bool = True,
    ) -> str:
        """Return the prompt, ending where the assistant's answer begins.

        Args:
            turns: the conversation.
            tools: functions that the model may call.
            variables: of the template, besides those that every template is given.
            opens_answer: False: the prompt ends with the last turn.

        Raises:
            TemplateRefusedError: the template refuses the conversation or fails on it.
        """
        write = _as_parts if self._takes_parts else self._as_text
        given = {**variables, "add_generation_prompt": opens_answer}
        if tools:
            given["tools"] = [{"type": "function", "function": dict(one)} for one in tools]
        return self._render([_with_calls(write(turn), turn) for turn in turns], given)

    def _render(self, messages: list[dict[str, Any]], given: Mapping[str, Any]) -> str:
        try:
            return self._template.render({**given, "messages": messages, **self._special})
        except _FAILURES as error:
            raise TemplateRefusedError(
                f"the model's chat template does not take this conversation ({error})"
            ) from error

    def _detect_parts(self) -> bool:
        """Find out whether the template reads content as a list of parts or as one text.

        A template for text prints the list itself (with its quotes) or fails on it.
        """
        style = self._style
        kind, mark = (Media.IMAGE, style.placeholder)
        if not style.reads_images:
            kind, mark = (Media.AUDIO, style.audio)
        try:
            rendered = self._render([_as_parts(Turn("user", (kind, _PROBE)))], _OPENED)
        except TemplateRefusedError:
            return False
        marks = rendered.count(mark)
        return marks == 1 and _PROBE in rendered and "'type'" not in rendered

    def _writes(self, turn: Turn) -> bool:
        """Find out whether a turn with the probe stands in the prompt, after a question."""
        try:
            return _PROBE in self.render([Turn("user", ("?",)), turn])
        except TemplateRefusedError:
            return False

    def _detect_names(self) -> bool:
        """Find out whether the name of a tool stands before what it has found."""
        call = Turn("assistant", (), (Call(_PROBE_ID, "f", {}),))
        answer = Turn("tool", ("?",), answers=_PROBE_ID, name=PROBE)
        try:
            return PROBE in self.render([Turn("user", ("?",)), call, answer])
        except TemplateRefusedError:
            return False

    def _detect_dialect(self) -> ToolDialect | None:
        """Try the template with a tool and a call of it."""
        probe = {"name": PROBE, "description": _PROBE, "parameters": {"type": "object"}}
        question = Turn("user", ("?",))
        call = Turn("assistant", (), (Call(_PROBE_ID, PROBE, {"x": 1}),))
        answer = Turn("tool", (_PROBE,), answers=_PROBE_ID, name=PROBE)
        try:
            if PROBE not in self.render([question], [probe]):
                return None
            return dialect_of(self.render([question, call, answer], [probe]))
        except TemplateRefusedError:
            return None

    def _as_text(self, turn: Turn) -> dict[str, Any]:
        style = self._style
        marks = {
            Media.IMAGE: style.placeholder,
            Media.VIDEO: style.video,
            Media.AUDIO: style.audio,
        }
        lines = (marks[part] if isinstance(part, Media) else part for part in turn.parts)
        return {"role": turn.role, "content": style.join.join(lines)}


def load_template(
    processor: Path, style: PromptStyle, tokenizer: Path | None = None
) -> ChatTemplate:
    """Read the chat template from an engine's processor directory.

    Searched as `find_chat_template` says; the family's own template is the last resort.

    Args:
        processor: where the checkpoint's small files lie.
        style: of the family.
        tokenizer: where those of its tokenizer lie, if elsewhere.

    Raises:
        ValueError: there is none.
    """
    config = read_object((tokenizer or processor) / "tokenizer_config.json")
    source = find_chat_template(processor, tokenizer) or style.chat
    if source:
        return ChatTemplate(source, _special_tokens(config), style)
    raise ValueError(
        f"{processor} holds no chat template (chat_template.jinja, chat_template.json, or the key "
        "chat_template of processor_config.json or tokenizer_config.json); add one to the "
        "checkpoint and build again"
    )


def load_tools_template(
    processor: Path, style: PromptStyle, tokenizer: Path | None = None
) -> ChatTemplate | None:
    """Read the template with which trtllm-serve writes tools; None: it would refuse them.

    It takes the tokenizer's for them and the processor's for all else (`resolve_hf_chat_template`
    of tensorrt_llm/inputs/utils.py).

    Args:
        processor: where the checkpoint's small files lie.
        style: of the family.
        tokenizer: where those of its tokenizer lie, if elsewhere.
    """
    source = find_tools_template(processor, tokenizer)
    if source is None:
        return None
    config = read_object((tokenizer or processor) / "tokenizer_config.json")
    return ChatTemplate(source, _special_tokens(config), style)


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else str(value.get("content", ""))
        for name in ("bos_token", "eos_token", "pad_token", "unk_token")
        if (value := config.get(name))
    }


def _as_parts(turn: Turn) -> dict[str, Any]:
    parts = [
        {"type": part.value} if isinstance(part, Media) else {"type": "text", "text": part}
        for part in turn.parts
    ]
    return {"role": turn.role, "content": parts}


def _with_calls(message: dict[str, Any], turn: Turn) -> dict[str, Any]:
    """Add what a turn of tools has besides its content, as transformers' templates read it."""
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for call in turn.calls
        ]
    if turn.answers is not None:
        message["tool_call_id"] = turn.answers
    if turn.name is not None:
        message["name"] = turn.name
    return message


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - as transformers' filter has them
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Print JSON as transformers' templates expect: not escaped for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
