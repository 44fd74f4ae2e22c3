"""Wire types of tools: functions that a model may call, what it has called, what it must call."""

from contextlib import suppress
from hashlib import sha256
from typing import Annotated, Any, Literal

import pydantic_core
from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from mm_runtime.gateway.api.unused import OF_MESSAGES
from mm_runtime.gateway.api.wire import JsonObject, Wire, in_json

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
    if isinstance(arguments, dict | list):
        return pydantic_core.to_json(arguments).decode()
    return "" if arguments is None else arguments


class CalledFunction(Wire):
    """Which function was called, and with what, as a model has written it."""

    name: str = Field(min_length=1, max_length=256)
    arguments: Annotated[str, Field(max_length=MAX_ARGUMENTS), BeforeValidator(_written)] = ""

    @property
    def values(self) -> dict[str, Any]:
        """The arguments by their names; none where the model has written no object in JSON.

        Templates want an object, and a refusal would end the conversation for good: its client
        sends the same call again with each turn. vLLM gives templates the same.
        """
        with suppress(ValueError):
            found = pydantic_core.from_json(self.arguments)
            return in_json(found) if isinstance(found, dict) else {}
        return {}


_FUNCTION = BeforeValidator(lambda value: value or "function")
"""go-openai writes a type that was left out as an empty text."""


class ToolCall(Wire):
    """A call that the assistant has made."""

    others = OF_MESSAGES

    id: str = Field(min_length=1, max_length=256)
    type: Annotated[Literal["function"], _FUNCTION] = "function"
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


def form_of_choice(value: object) -> str:
    """Return the branch of a choice, which its errors name."""
    return "<word>" if isinstance(value, str) else "<function>"


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<word>")]
    | Annotated[NamedChoice, Tag("<function>")],
    Discriminator(form_of_choice),
]
