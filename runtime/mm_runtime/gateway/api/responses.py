"""Wire types of `POST /v1/responses`, and the chat that a request means: nothing is stored."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, PrivateAttr, StrictBool, Tag

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.messages import MAX_MESSAGES, MAX_PARTS, RefusalPart
from mm_runtime.gateway.api.openai import MAX_LABELS, MAX_TOKENS, ChatRequest, Unserved
from mm_runtime.gateway.api.response_format import JsonFormat, NamedSchema, TextFormat
from mm_runtime.gateway.api.response_places import Place
from mm_runtime.gateway.api.tools import (
    MAX_TOOLS,
    CalledFunction,
    Function,
    FunctionName,
    form_of_choice,
)
from mm_runtime.gateway.api.unused import NOT_USED
from mm_runtime.gateway.api.wire import JsonObject, Wire, form, null_is

_Label = Annotated[str, Field(max_length=256)]


class InputText(Wire):
    """Text of a message."""

    type: Literal["input_text"]
    text: str


_AS_TEXT = BeforeValidator(
    lambda value: value["url"] if isinstance(value, dict) and value.keys() == {"url"} else value
)
"""Chats have the URL in an object."""


class InputImage(Wire):
    """An image of a message; files that were uploaded before are none of this server's."""

    type: Literal["input_image"]
    image_url: Annotated[str, Field(min_length=1), _AS_TEXT]
    detail: Annotated[Literal["auto", "low", "high"], null_is("auto")] = "auto"
    file_id: None = None


class OutputText(Wire):
    """Text of an answer that is sent back."""

    type: Literal["output_text"]
    text: str
    annotations: Annotated[list[object], Field(max_length=0)] | None = None
    logprobs: Annotated[list[object], Field(max_length=0)] | None = None


Part = Annotated[InputText | InputImage | OutputText | RefusalPart, Field(discriminator="type")]
Content = Annotated[
    Annotated[str, Tag("<string>")]
    | Annotated[list[Part], Field(max_length=MAX_PARTS, fail_fast=True), Tag("<parts>")],
    Discriminator(form),
]


class Kept(Wire):
    """What an item has that was an answer before."""

    id: _Label | None = None
    status: _Label | None = None


class MessageItem(Kept):
    """One turn of the conversation."""

    type: Annotated[Literal["message"], null_is("message")] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    phase: Literal["commentary", "final_answer"] | None = None


class CallItem(CalledFunction, Kept):
    """A call that the assistant has made."""

    type: Literal["function_call"]
    call_id: str = Field(min_length=1, max_length=256)
    namespace: None = None
    caller: None = None


class OutputItem(Kept):
    """What a called function has found."""

    type: Literal["function_call_output"]
    call_id: str = Field(min_length=1, max_length=256)
    output: Content


class ReasoningItem(Kept):
    """What a model has thought before its next item; see `Message.reasoning`."""

    type: Literal["reasoning"]
    summary: list[JsonObject] | None = None
    content: list[JsonObject] | None = None
    encrypted_content: str | None = None


def _kind(value: object) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    return f"<{kind}>" if isinstance(kind, str) else "<message>"


Item = Annotated[
    Annotated[MessageItem, Tag("<message>")]
    | Annotated[CallItem, Tag("<function_call>")]
    | Annotated[OutputItem, Tag("<function_call_output>")]
    | Annotated[ReasoningItem, Tag("<reasoning>")],
    Discriminator(_kind),
]
Input = Annotated[
    Annotated[str, Field(min_length=1), Tag("<string>")]
    | Annotated[
        list[Item], Field(min_length=1, max_length=MAX_MESSAGES - 1, fail_fast=True), Tag("<parts>")
    ],
    Discriminator(form),
]


class Kind(Wire):
    """What a tool is; it is checked first, for the fields of others are others."""

    type: Literal["function"]


class FunctionTool(Function, Kind):
    """A function that the model may call."""


class NamedTool(Kind):
    """The function that must be called."""

    name: FunctionName


Choice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<word>")]
    | Annotated[NamedTool, Tag("<function>")],
    Discriminator(form_of_choice),
]


class SchemaText(NamedSchema):
    """JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: JsonObject = Field(alias="schema")


class TextOptions(Wire):
    """What the text of an answer must be."""

    format: Annotated[TextFormat | JsonFormat | SchemaText, Field(discriminator="type")] | None = (
        None
    )
    verbosity: Unserved = None


class ResponseStream(Wire):
    """What a stream holds besides the answer."""

    include_obfuscation: Annotated[Literal[False], null_is(default=False)] = False


class ResponsesRequest(Wire):
    """Body of `POST /v1/responses`."""

    others = NOT_USED

    model: str = Field(min_length=1)
    input: Input
    instructions: str | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    stream: StrictBool | None = None
    stream_options: ResponseStream | None = None
    text: TextOptions | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Choice | None = None
    parallel_tool_calls: StrictBool | None = None
    # Not served: nothing is kept between two requests.
    store: Literal[False] | None = None
    previous_response_id: None = None
    conversation: None = None
    background: Literal[False] | None = None
    include: Annotated[list[object], Field(max_length=0)] | None = None
    max_tool_calls: None = None
    prompt: None = None
    reasoning: Unserved = None
    truncation: Literal["disabled"] | None = None
    service_tier: Literal["auto", "default"] | None = None
    # Labels without effect on the answer.
    metadata: Annotated[dict[str, str], Field(max_length=MAX_LABELS)] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


class ResponsesChat(ChatRequest):
    """The chat that a request means, which remembers it."""

    _original: ResponsesRequest = PrivateAttr()

    @property
    def original(self) -> ResponsesRequest:
        return self._original


def chat_of(original: ResponsesRequest) -> ResponsesChat:
    """Return the chat that a request means.

    Raises:
        pydantic.ValidationError: its parts do not fit together.
        InvalidRequestError: there is nothing to answer.
    """
    messages = [message for _, message in _placed_messages(original)]
    if not messages:
        raise InvalidRequestError(
            "`input` has nothing but reasoning: expected a message, or what a function has found, "
            "as well. Send what is to be answered.",
            param="input",
        )
    chat = ResponsesChat.model_validate(
        {
            "model": original.model,
            "messages": messages,
            "max_completion_tokens": original.max_output_tokens,
            "temperature": original.temperature,
            "top_p": original.top_p,
            "stream": original.stream,
            "tools": original.tools and [_in_chats(tool) for tool in original.tools],
            "tool_choice": _in_chats(original.tool_choice),
            "parallel_tool_calls": original.parallel_tool_calls,
            "response_format": original.text and _in_chats(original.text.format),
        }
    )
    chat._original = original  # noqa: SLF001 - of this module
    return chat


def places_of(original: ResponsesRequest) -> list[Place]:
    return [place for place, _ in _placed_messages(original)]


def _placed_messages(original: ResponsesRequest) -> list[tuple[Place, dict[str, Any]]]:
    messages: list[tuple[Place, dict[str, Any]]] = []
    if original.instructions:
        place = Place("instructions", "instructions")
        messages.append((place, {"role": "system", "content": original.instructions}))
    if isinstance(original.input, str):
        place = Place("input", "input")
        return [*messages, (place, {"role": "user", "content": original.input})]
    for number, item in enumerate(original.input):
        place = Place(f"input[{number}]", f"input[{number}].content")
        match item:
            case MessageItem():
                said = {"role": item.role, "content": _content(item.content)}
                messages.append((place, said))
            case CallItem():
                function = {"name": item.name, "arguments": item.arguments}
                call = {"id": item.call_id, "type": "function", "function": function}
                # Calls in a row were made together.
                if messages and messages[-1][1].get("tool_calls"):
                    messages[-1][1]["tool_calls"].append(call)
                else:
                    made = {"role": "assistant", "content": None, "tool_calls": [call]}
                    messages.append((place, made))
            case OutputItem():
                place = Place(place.name, f"{place.name}.output")
                found = _content(item.output)
                answer = {"role": "tool", "tool_call_id": item.call_id, "content": found}
                messages.append((place, answer))
        before = original.input[number - 1] if number else None
        if isinstance(item, ReasoningItem) or not isinstance(before, ReasoningItem):
            continue
        if messages[-1][1]["role"] == "assistant":
            place = replace(messages[-1][0], thought=f"input[{number - 1}]")
            text = str(before.content or before.summary or "")
            messages[-1] = place, {**messages[-1][1], "reasoning": text}
    return messages


def _content(content: str | Sequence[InputText | InputImage | OutputText | RefusalPart]) -> object:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _part(part: InputText | InputImage | OutputText | RefusalPart) -> dict[str, Any]:
    if isinstance(part, RefusalPart):
        return part.model_dump(by_alias=True)
    if isinstance(part, InputImage):
        return {"type": "image_url", "image_url": {"url": part.image_url, "detail": part.detail}}
    return {"type": "text", "text": part.text}


def _in_chats(flat: Wire | str | None) -> object:
    """Return a tool, a choice or a format, whose fields chats have in an object of their own."""
    match flat:
        case Kind():
            return {"type": flat.type, "function": flat.model_dump(exclude={"type"})}
        case SchemaText():
            schema = flat.model_dump(by_alias=True, exclude={"type"})
            return {"type": flat.type, "json_schema": schema}
    return flat
