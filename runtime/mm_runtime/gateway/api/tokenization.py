"""Wire types of `/tokenize` and `/detokenize`, which OpenAI does not have, as vLLM spells them."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import Field, StrictBool, model_validator

from mm_runtime.gateway.api.messages import Messages
from mm_runtime.gateway.api.openai import ChatRequest, TokenId
from mm_runtime.gateway.api.schema_rules import NULL, Rule, absent, fields, one_of
from mm_runtime.gateway.api.unused import NOT_USED
from mm_runtime.gateway.api.wire import NullIs, Wire
from mm_runtime.gateway.api.written import WrittenRequest


class TokenizeRequest(WrittenRequest):
    """Body of `POST /tokenize`: a text, or a conversation."""

    others = NOT_USED

    model: str | None = Field(default=None, min_length=1)
    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: StrictBool | None = None
    """False: without those that the tokenizer, or the gateway, adds to what is written; by default
    with them, as the engine reads it."""

    return_token_strs: Annotated[StrictBool, NullIs(default=False)] = False

    rules: ClassVar[Sequence[Rule]] = (
        one_of(
            fields(
                {"prompt": {"type": "string"}},
                **absent(["messages", *WrittenRequest.model_fields]),
            ),
            fields({"messages": {"type": "array"}}, prompt=NULL),
        ),
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            message = "expected one of `prompt` and `messages`"
            raise ValueError(message)
        given = [name for name in WrittenRequest.model_fields if getattr(self, name) is not None]
        if self.prompt is not None and given:
            message = f"`{given[0]}` belongs to `messages`: no template writes a `prompt`"
            raise ValueError(message)
        return self

    def chat(self, model: str) -> ChatRequest:
        assert self.messages is not None  # noqa: S101  # the caller knows which of both is there
        written = {name: getattr(self, name) for name in WrittenRequest.model_fields}
        return ChatRequest(model=model, messages=self.messages, **written)


class DetokenizeRequest(Wire):
    """Body of `POST /detokenize`."""

    model: str | None = Field(default=None, min_length=1)
    tokens: list[TokenId] = Field(min_length=1)


def tokenized(tokens: list[int], *, longest: int, spelled: list[str] | None) -> dict[str, object]:
    """Return the answer of `/tokenize`; `longest` is the model's limit of a sequence."""
    return {
        "count": len(tokens),
        "max_model_len": longest,
        "tokens": tokens,
        "token_strs": spelled,
    }
