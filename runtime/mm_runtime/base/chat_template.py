"""Conversations -> the prompt text that a model was trained on, through its checkpoint's template.

Inspection, Triton's preprocessing and the gateway write prompts here. Templates come with
checkpoints, so they run in jinja2's sandbox, with what transformers gives them and nothing else:
`_cached_compile_jinja_template` and `render_jinja_template` of
transformers/utils/chat_template_utils.py, version 5.23.
"""

import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, NoReturn

from jinja2 import Template, nodes
from jinja2.exceptions import (
    SecurityError,
    TemplateError,
    TemplateRuntimeError,
    TemplateSyntaxError,
    UndefinedError,
)
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.utils import Namespace

from mm_api.families.prompt import PromptStyle
from mm_runtime.base.bounded_templates import (
    BoundedEnvironment,
    TemplateTooLargeError,
    bounded,
    one_prompt,
    written,
)
from mm_runtime.base.chat_template_files import JINJA_FILE

PROBE = "a probe of the template"

_MOST_FORM = 1024
"""Characters of a date's format that are read."""

_NO_VARIABLES: Mapping[str, Any] = MappingProxyType({})

_UNDEFINED = re.compile(r"'\w+' is undefined")
"""Error about a name by itself: that of a missing key says of what."""

_FAILURES = (
    *(TemplateError, TypeError, ValueError, LookupError),
    *(ArithmeticError, AttributeError, RecursionError, MemoryError),
)
"""Errors of a template on a conversation or on variables of a client: it may count up to one of
them, or divide by it."""


class TemplateRefusedError(Exception):
    """The template cannot render this conversation, for example an order of roles it forbids."""


class Media(Enum):
    """A medium in a message; the value is its type in templates."""

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
    """One message: its role and its parts in order; none: it has no content, as a call of a tool.

    `answers`: id of the call that a message of a tool answers. `name`: of the tool.
    """

    role: str
    parts: tuple[str | Media, ...]
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    name: str | None = None


Tool = Mapping[str, object]
"""A function that the model may call, as templates are given it."""


class PromptTemplate:
    """The chat template of one checkpoint."""

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        style: PromptStyle,
        now: Callable[[], datetime] = datetime.now,
        file: str = JINJA_FILE,
    ) -> None:
        """Compile the template.

        Raises:
            TemplateSyntaxError: it is not jinja, or names a filter or a test that there is not.
        """
        self._template = _compiled(source, now)
        self._special = special_tokens
        self._file = file
        self._style = style
        self._takes_parts = self._detect_parts()

    def render(
        self,
        turns: Sequence[Turn],
        tools: Sequence[Tool] = (),
        variables: Mapping[str, Any] = _NO_VARIABLES,
    ) -> str:
        """Return the prompt, ending where the assistant's answer begins.

        Raises:
            TemplateRefusedError: the template refuses the conversation or fails on it.
        """
        messages = [self._message(turn) for turn in turns]
        given = {
            **variables,
            "tools": [{"type": "function", "function": dict(one)} for one in tools] or None,
            "add_generation_prompt": True,
        }
        return self._render(messages, given)

    def _render(self, messages: list[dict[str, Any]], given: Mapping[str, Any]) -> str:
        always = {"documents": None, **self._special}
        try:
            with one_prompt():
                return self._template.render({**always, **given, "messages": messages})
        except TemplateTooLargeError as error:
            raise TemplateRefusedError(
                f"the model's chat template ({self._file}) would make too much of this"
                f" conversation: {error}, or send less"
            ) from error
        except _FAILURES as error:
            raise TemplateRefusedError(
                f"the model's chat template ({self._file}) does not take this conversation: {error}"
            ) from error

    def _detect_parts(self) -> bool:
        """Find out whether the template reads content as a list of parts or as one text.

        A template for text prints the list itself (with its quotes) or fails on it.
        """
        kind, mark = medium_of(self._style)
        message = {"role": "user", "content": _parts((kind, PROBE))}
        try:
            rendered = self._render([message], {"tools": None, "add_generation_prompt": True})
        except TemplateRefusedError:
            return False
        marks = rendered.count(mark)
        return marks == 1 and PROBE in rendered and "'type'" not in rendered

    def _message(self, turn: Turn) -> dict[str, Any]:
        """Return a message as transformers' templates read it; what is not there has no key."""
        message: dict[str, Any] = {"role": turn.role}
        if turn.parts:
            write = _parts if self._takes_parts else self._text
            message["content"] = write(turn.parts)
        if turn.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": dict(call.arguments)},
                }
                for call in turn.calls
            ]
        named = {"tool_call_id": turn.answers, "name": turn.name}
        return message | {key: value for key, value in named.items() if value is not None}

    def _text(self, parts: Sequence[str | Media]) -> str:
        style = self._style
        marks = {
            Media.IMAGE: style.placeholder,
            Media.VIDEO: style.video,
            Media.AUDIO: style.audio,
        }
        return style.join.join(marks[part] if isinstance(part, Media) else part for part in parts)


def is_deliberate(refused: TemplateRefusedError) -> bool:
    """Return whether the template has refused a conversation by itself, with raise_exception."""
    return type(refused.__cause__) is TemplateError


def lacks_name(refused: TemplateRefusedError) -> bool:
    """Return whether it uses a function, a filter or a variable that there is not."""
    cause = refused.__cause__
    if isinstance(cause, TemplateTooLargeError):
        return True  # other conversations of the kind would not be smaller
    unknown = isinstance(cause, TemplateRuntimeError) and str(cause).startswith("No ")
    undefined = isinstance(cause, UndefinedError) and _UNDEFINED.fullmatch(str(cause))
    return unknown or bool(undefined)


def medium_of(style: PromptStyle) -> tuple[Media, str]:
    """Return a medium that conversations of a family may hold, and its placeholder."""
    if style.reads_images:
        return Media.IMAGE, style.placeholder
    return Media.AUDIO, style.audio


def line_of(error: BaseException) -> int | None:
    """Return the line of a template on which it failed; None where that is not known."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
    return lines[-1] if lines else None


def _parts(parts: Sequence[str | Media]) -> list[dict[str, str]]:
    return [
        {"type": part.value} if isinstance(part, Media) else {"type": "text", "text": part}
        for part in parts
    ]


def _compiled(source: str, now: Callable[[], datetime]) -> Template:
    environment = BoundedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = bounded("tojson", _to_json)
    environment.globals |= {
        "raise_exception": _raise,
        "strftime_now": lambda form: now().strftime(form[:_MOST_FORM]),
        "dict": _Dictionary(),
        "namespace": _Namespace,
    }
    return environment.from_string(source)


class _Generation(Extension):
    """`{% generation %}`: marks what the assistant says, for training; it prints its body."""

    tags = {"generation"}  # noqa: RUF012 (jinja2's own form)

    def parse(self, parser: Parser) -> nodes.CallBlock:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        block = nodes.CallBlock(self.call_method("_print"), [], [], body)
        block.set_lineno(line)
        return block

    @staticmethod
    def _print(caller: Macro) -> str:
        return caller()


class _Dictionary:
    """What templates may do with `dict`."""

    def __call__(self, *items: Any, **named: Any) -> dict[Any, Any]:
        return dict(*items, **named)

    @staticmethod
    def fromkeys(*keys: Any) -> dict[Any, Any]:
        return dict.fromkeys(*keys)


class _Namespace(Namespace):
    """One that holds no names of Python's own."""

    def __init__(*items: Any, **named: Any) -> None:
        self, *given = items
        attributes = dict(*given, **named)
        for name in attributes:
            _check_name(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace holds no name that begins with _, as {name!r} does")


def _raise(message: str) -> NoReturn:
    written(message)  # whatever prints the error would have to write it
    raise TemplateError(message)


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
