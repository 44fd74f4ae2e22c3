"""Wire types of tools: functions that a model may call, what it has called, what it must call."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Literal

import pydantic_core
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from mm_runtime.gateway.api.schema_rules import NULL, Rule, any_of, fields
from mm_runtime.gateway.api.unused import OF_MESSAGES
from mm_runtime.gateway.api.wire import JsonObject, NullIs, Wire

MAX_TOOLS = 128
"""OpenAI's limit."""
MAX_CALLS = 128
_ID_LENGTH = 9
"""Letters and digits: templates of Mistral refuse ids of other lengths."""
MAX_ARGUMENTS = 64 * 1024
"""Characters of the arguments of one call."""

FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]


class Function(Wire):
    """A function; `strict` is a label: where calls have a form, they always hold it."""

    name: FunctionName
    description: str | None = None
    parameters: JsonObject | None = None
    """A JSON schema of its arguments; None: any object."""

    strict: bool | None = None

    def to_template(self) -> dict[str, object]:
        """Return what chat templates are given of it."""
        return {
            "name": self.name,
            "description": self.description or "",
            "parameters": self.parameters or {"type": "object", "properties": {}},
        }


class Tool(Wire):
    """What a model may use; there are functions only."""

    type: Literal["function"]
    function: Function


def _check_tools(tools: list[Tool]) -> list[Tool]:
    names = [tool.function.name for tool in tools]
    for number, name in enumerate(names):
        if name in names[:number]:
            message = f"two functions have the name {name!r}"
            raise ValueError(message)
    return tools


Tools = Annotated[list[Tool], Field(max_length=MAX_TOOLS), AfterValidator(_check_tools)]


def _written(arguments: object) -> object:
    if isinstance(arguments, dict):
        return pydantic_core.to_json(arguments).decode()
    return "" if arguments is None else arguments


def _check_arguments(text: str) -> str:
    """Refuse what is no JSON object; templates want the object. Models write null for none."""
    try:
        found = pydantic_core.from_json(text or "{}", allow_inf_nan=False)
    except ValueError as error:
        message = f"expected the JSON of an object: {error}"
        raise ValueError(message) from None
    if not isinstance(found, dict | None):
        message = "expected the JSON of an object"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports no TypeError
    return text


_ARGUMENTS_TEXT: Rule = {
    "type": "string",
    "maxLength": MAX_ARGUMENTS,
    "contentMediaType": "application/json",
    "contentSchema": {"type": "object"},
}


class CalledFunction(Wire):
    """Which function was called, and with what."""

    name: FunctionName
    arguments: Annotated[
        str,
        Field(max_length=MAX_ARGUMENTS),
        BeforeValidator(_written),
        AfterValidator(_check_arguments),
        WithJsonSchema(any_of(_ARGUMENTS_TEXT, {"type": "object"}, NULL)),
    ] = ""

    @property
    def values(self) -> dict[str, Any]:
        """The arguments by their names."""
        found: dict[str, Any] | None = pydantic_core.from_json(self.arguments or "{}")
        return found or {}


class ToolCall(Wire):
    """A call that the assistant has made."""

    others = OF_MESSAGES
    made: ClassVar[Sequence[str]] = ("id",)

    id: Annotated[
        str,
        Field(min_length=1, max_length=256),
        WithJsonSchema(any_of({"type": "string", "maxLength": 256}, NULL)),
    ]
    type: Annotated[Literal["function"], NullIs("function")] = "function"
    function: CalledFunction
    index: int | None = None
    """Position in a stream's parts; those who join them leave it there."""

    @model_validator(mode="before")
    @classmethod
    def _with_id(cls, call: Any) -> Any:
        if not isinstance(call, dict) or call.get("id") or "function" not in call:
            return call
        return {**call, "id": sha256(repr(call["function"]).encode()).hexdigest()[:_ID_LENGTH]}


class NamedFunction(Wire):
    """The name of one of the functions."""

    name: FunctionName


class NamedChoice(Wire):
    """The function that must be called."""

    type: Literal["function"]
    function: NamedFunction


FREE_CHOICE: Rule = {"enum": ["none", "auto", None]}
"""A call that may be made, and need not."""

MUST_CALL = any_of(
    fields(tool_choice=FREE_CHOICE), fields({"tools": {"type": "array", "minItems": 1}})
)


def form_of_choice(value: object) -> str:
    """Return the branch of a choice, which its errors name."""
    return "<word>" if isinstance(value, str) else "<function>"


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<word>")]
    | Annotated[NamedChoice, Tag("<function>")],
    Discriminator(form_of_choice),
]
