"""Wire types of OpenAI's completions, as far as this gateway serves them.

A field that would change the answer and is not served is refused by name, never ignored. Fields
that only label a request (`user`, `metadata`, ...) are accepted and have no effect.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    ValidationInfo,
    field_validator,
)

from mm_runtime.gateway.api.messages import Messages, is_remote
from mm_runtime.gateway.api.response_format import ResponseFormat, TextFormat
from mm_runtime.gateway.api.structured_outputs import StructuredOutputs
from mm_runtime.gateway.api.tools import NamedChoice, ToolChoice, Tools
from mm_runtime.gateway.api.unused import NOT_USED, UNUSED_IS_NULL
from mm_runtime.gateway.api.wire import JsonObject, Wire, form, null_is

_INT64 = 2**63 - 1
INT31 = 2**31 - 1
"""Largest id of a token: engines have 32 bits."""
MAX_TOKENS = _INT64
"""Limit of an answer, as a client may name it; how many there is room for is the engine's limit."""
MAX_STOPS = 4
"""OpenAI's limit on stop strings."""
MAX_STOP_IDS = 64
MAX_CHOICES = 16
"""Answers of one request. Each takes a place, and a slot of the engine."""
MAX_LIKELIEST = 20
"""OpenAI's limit on `top_logprobs`."""
MAX_BIASED = 1024
"""Tokens of `logit_bias`; OpenAI takes 300."""
MAX_BIAS = 100
"""OpenAI's limit."""
MAX_REPETITION_PENALTY = 100
"""Two is strong already; beyond this logits lose their order to rounding."""
MAX_LABELS = 16
"""OpenAI's limit on pairs of `metadata`."""


Unserved = Annotated[None, UNUSED_IS_NULL]


class StreamOptions(Wire):
    """What a stream holds besides the answer."""

    include_usage: StrictBool = False
    continuous_usage_stats: StrictBool = False
    """No field of OpenAI's, spelt as vLLM does: every chunk says the usage so far."""
    include_obfuscation: Annotated[Literal[False], null_is(default=False)] = False


_Stop = Annotated[str, Field(min_length=1)]
Stops = Annotated[
    Annotated[_Stop, Tag("<string>")]
    | Annotated[list[_Stop], Field(max_length=MAX_STOPS, fail_fast=True), Tag("<parts>")],
    Discriminator(form),
]

_Text = Annotated[str, Field(min_length=1)]
Prompt = Annotated[
    Annotated[_Text, Tag("<string>")] | Annotated[list[_Text], Field(min_length=1), Tag("<parts>")],
    Discriminator(form),
]


def _check_bias(bias: dict[int, float]) -> dict[int, float]:
    if not all(0 <= token <= INT31 for token in bias):
        message = "expected ids of tokens as keys"
        raise ValueError(message)
    return bias


TokenId = Annotated[int, Field(ge=0, le=INT31)]
Bias = Annotated[
    dict[int, Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS)]],
    Field(
        max_length=MAX_BIASED,
        json_schema_extra={"propertyNames": {"pattern": "^(0|[1-9][0-9]{0,9})$"}},
    ),
    AfterValidator(_check_bias),
]


class GenerationRequest(Wire):
    """What completions and transcriptions have; names beside OpenAI's are vLLM's."""

    others = NOT_USED

    model: str = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    """0: the likeliest token alone."""

    top_k: int | None = Field(default=None, ge=-1, le=INT31)
    """0 and -1: all."""

    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float | None = Field(default=None, gt=0, le=MAX_REPETITION_PENALTY)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    seed: int | None = Field(default=None, ge=-_INT64 - 1, le=_INT64)
    stop: Annotated[Stops | None, UNUSED_IS_NULL] = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    cache_salt: str | None = Field(default=None, min_length=1, max_length=256)
    """No part of OpenAI's, spelt as vLLM does: what was made of images and prompts is shared with
    requests of the same salt only."""

    # A label without effect on the answer.
    user: str | None = None

    @field_validator("stream_options")
    @classmethod
    def _streamed(cls, options: StreamOptions | None, info: ValidationInfo) -> StreamOptions | None:
        """Refuse them without a stream, as OpenAI and vLLM do: nothing would come of them."""
        if options is not None and not info.data.get("stream"):
            message = "expected `stream` to be true as well; leave this out of other requests"
            raise ValueError(message)
        return options

    @property
    def fetches(self) -> bool:
        """Whether a file stands behind an address, and not in the request."""
        return False

    @property
    def prompts(self) -> int:
        return 1

    @property
    def choices(self) -> int:
        return 1

    @property
    def token_limit(self) -> int | None:
        """Most tokens to generate; the newer name wins, where there is one."""
        newer: int | None = getattr(self, "max_completion_tokens", None)
        return self.max_tokens if newer is None else newer

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return tuple(dict.fromkeys([self.stop] if isinstance(self.stop, str) else self.stop))


class SampledRequest(GenerationRequest):
    """Parameters of completions that transcriptions do not have; spelt as vLLM spells them."""

    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    logit_bias: Bias | None = None
    min_tokens: int | None = Field(default=None, ge=0, le=INT31)
    ignore_eos: StrictBool | None = None
    stop_token_ids: list[TokenId] | None = Field(default=None, max_length=MAX_STOP_IDS)
    skip_special_tokens: StrictBool | None = None
    structured_outputs: StructuredOutputs | None = None
    """No part of OpenAI's, spelt as vLLM does: patterns and choices, and JSON."""

    response_format: ResponseFormat | None = Field(default=None, validate_default=True)

    @field_validator("response_format")
    @classmethod
    def _one_form(cls, form: ResponseFormat | None, info: ValidationInfo) -> ResponseFormat | None:
        """Refuse two forms, and what would keep an answer from its end where its form is full."""
        structured = info.data.get("structured_outputs") is not None
        stated = not isinstance(form, TextFormat | None)
        if structured and stated:
            message = "an answer has one form: `structured_outputs`, or this one"
            raise ValueError(message)
        if (structured or stated) and (info.data.get("min_tokens") or info.data.get("ignore_eos")):
            message = "`min_tokens` and `ignore_eos` cannot be held where an answer has a form"
            raise ValueError(message)
        return form

    @property
    def choices(self) -> int:
        return self.n or 1

    @property
    def likeliest(self) -> int | None:
        """How many scores besides its own are reported of each token; None: not even that."""
        raise NotImplementedError


MAX_VARIABLES = 32
_OWN_VARIABLES = frozenset(
    {
        *("messages", "tools", "add_generation_prompt", "continue_final_message"),
        *("bos_token", "eos_token", "pad_token", "unk_token", "chat_template", "raise_exception"),
    }
)


def _check_names(variables: dict[str, Any]) -> dict[str, Any]:
    if taken := sorted(_OWN_VARIABLES & set(variables)):
        message = f"`{taken[0]}` is set by the server"
        raise ValueError(message)
    return variables


class ChatRequest(SampledRequest):
    """Body of `POST /v1/chat/completions`."""

    others: ClassVar[Mapping[str, tuple[object, ...]]] = {
        **NOT_USED,
        "add_special_tokens": (False,),
    }
    """A template writes all special tokens of a chat."""

    chat_template_kwargs: (
        Annotated[
            JsonObject,
            Field(
                max_length=MAX_VARIABLES,
                json_schema_extra={"propertyNames": {"not": {"enum": sorted(_OWN_VARIABLES)}}},
            ),
            AfterValidator(_check_names),
        ]
        | None
    ) = None
    tools: Tools | None = None
    messages: Messages
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    logprobs: Annotated[StrictBool | None, UNUSED_IS_NULL] = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_LIKELIEST)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: StrictBool | None = None
    # Not served; null, and the values of `unused`, mean that the client does not use it.
    audio: None = None
    function_call: Unserved = None
    functions: Unserved = None
    modalities: Unserved = None
    prediction: None = None
    reasoning_effort: Unserved = None
    verbosity: Unserved = None
    web_search_options: None = None
    # Labels without effect on the answer.
    metadata: Annotated[dict[str, str], Field(max_length=MAX_LABELS)] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    store: Literal[False] | None = None
    service_tier: Literal["auto", "default"] | None = None

    @property
    def fetches(self) -> bool:
        """Whether an image or a video stands behind an address, and not in the request."""
        contents = (message.content for message in self.messages)
        # A text of 24 MB, letter by letter, was 2.5 s of a standing event loop.
        lists = (one for one in contents if one is not None and not isinstance(one, str))
        return any(is_remote(part) for parts in lists for part in parts)

    @field_validator("tool_choice")
    @classmethod
    def _can_be_called(cls, choice: ToolChoice | None, info: ValidationInfo) -> ToolChoice | None:
        """Refuse a call that must be made and cannot."""
        if choice in {None, "none", "auto"}:
            return choice
        names = [tool.function.name for tool in info.data.get("tools") or ()]
        if not names:
            message = "there are no `tools` to call"
            raise ValueError(message)
        if isinstance(choice, NamedChoice) and choice.function.name not in names:
            message = f"{choice.function.name!r} is none of `tools`"
            raise ValueError(message)
        free = isinstance(info.data.get("response_format"), TextFormat | None)
        if not free or info.data.get("structured_outputs") is not None:
            message = "an answer has one form: that of a call, or another"
            raise ValueError(message)
        if info.data.get("min_tokens") or info.data.get("ignore_eos"):
            message = "`min_tokens` and `ignore_eos` cannot be held where a call must be made"
            raise ValueError(message)
        return choice

    @field_validator("top_logprobs")
    @classmethod
    def _scored(cls, count: int | None, info: ValidationInfo) -> int | None:
        if count and not info.data.get("logprobs"):
            message = "`logprobs` must be true as well"
            raise ValueError(message)
        return count

    @property
    def offered(self) -> Tools:
        """Functions that the model may call in this answer."""
        return [] if self.tool_choice == "none" else self.tools or []

    @property
    def must_call(self) -> bool:
        """Whether the answer is a call, whatever the model would say."""
        return self.tool_choice == "required" or isinstance(self.tool_choice, NamedChoice)

    @property
    def most_calls(self) -> int | None:
        """Most calls of one answer; None: any number."""
        return 1 if self.parallel_tool_calls is False else None

    @property
    def likeliest(self) -> int | None:
        """How many scores besides its own are reported of each token; None: not even that."""
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionRequest(SampledRequest):
    """Body of `POST /v1/completions`."""

    others: ClassVar[Mapping[str, tuple[object, ...]]] = {**NOT_USED, "add_special_tokens": (True,)}

    prompt: Prompt
    best_of: Unserved = None
    logprobs: Annotated[int | None, UNUSED_IS_NULL] = Field(default=None, ge=0, le=MAX_LIKELIEST)
    suffix: Unserved = None

    @field_validator("prompt", mode="before")
    @classmethod
    def _of_texts(cls, prompt: object) -> object:
        if isinstance(prompt, list) and any(isinstance(one, int | list) for one in prompt):
            message = "expected texts; send the text of ids of tokens"
            raise ValueError(message)
        return prompt

    @field_validator("prompt")
    @classmethod
    def _few(cls, prompt: Prompt, info: ValidationInfo) -> Prompt:
        """Refuse more answers than a request may have: every one takes a place."""
        prompts = 1 if isinstance(prompt, str) else len(prompt)
        each = info.data.get("n") or 1
        if prompts * each > MAX_CHOICES:
            message = (
                f"got {prompts} prompts with {each} answers each (`n`); expected at most "
                f"{MAX_CHOICES} answers in all: send the other prompts in further requests"
            )
            raise ValueError(message)
        return prompt

    @property
    def prompts(self) -> int:
        return len(self.each_prompt)

    @property
    def likeliest(self) -> int | None:
        """How many scores besides its own are reported of each token; None: not even that."""
        return self.logprobs

    @property
    def each_prompt(self) -> dict[str, str]:
        prompts = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        if len(prompts) == 1:
            return {"prompt": prompts[0]}
        return {f"prompt[{number}]": one for number, one in enumerate(prompts)}
