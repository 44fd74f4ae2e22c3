"""Texts and conversations as the tokens that the engine will read, and back."""

from dataclasses import dataclass

from mm_runtime.gateway.admission.tokens import ContextLimits, check_characters
from mm_runtime.gateway.api.parameters import refuse_unserved
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.api.tokenization import DetokenizeRequest, TokenizeRequest, tokenized
from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.prompts.conversation import ChatPrompt
from mm_runtime.serving.prompts.tokens import TextCodec


@dataclass(frozen=True, slots=True)
class Tokenization:
    """The tokenizer of one model.

    Attributes:
        chat_prompt: None: the model knows no conversations.
    """

    model: ServedModel
    codec: TextCodec
    chat_prompt: ChatPrompt | None

    def tokenize(self, request: TokenizeRequest) -> dict[str, object]:
        """Return the tokens that the engine reads; an image is the one token of its placeholder.

        Raises:
            UnknownModelError, InvalidRequestError: as a completion.
        """
        name = request.model or self.model.name
        self.model.names.adapter(name)
        text, special = request.prompt, request.add_special_tokens is not False
        if text is not None and special and self.chat_prompt is not None:
            # Not every tokenizer adds the begin token by itself.
            text = self.chat_prompt.begun(text)
        if request.messages is not None:
            if self.chat_prompt is None:
                raise InvalidRequestError(
                    "This model knows no conversations. Send `prompt`.",
                    param="messages",
                    code="unsupported_endpoint",
                )
            chat = request.chat(name)
            refuse_unserved(chat, self.model.backend, calls_missing=self.model.calls_missing)
            text = self.chat_prompt.write(self.chat_prompt.split(chat))
        assert text is not None  # noqa: S101  # one of both is there
        check_characters(self._limits, text, "prompt" if request.messages is None else "messages")
        encode = self.codec.encode_prompt if special else self.codec.encode_word
        tokens = encode(text)
        spelled = None
        if request.return_token_strs:
            spelled = [self.codec.spell(token).text for token in tokens]
        return tokenized(tokens, longest=self._limits.max_seq_len, spelled=spelled)

    def detokenize(self, request: DetokenizeRequest) -> dict[str, object]:
        """Return the text of tokens.

        Raises:
            UnknownModelError: it names another model.
            InvalidRequestError: a token that the tokenizer does not have.
        """
        self.model.names.adapter(request.model or self.model.name)
        largest = max(request.tokens)
        if largest >= self.codec.size:
            raise InvalidRequestError(
                f"Token {largest} is none of the tokenizer's, which are below {self.codec.size}.",
                param="tokens",
            )
        return {"prompt": self.codec.decode_all(request.tokens)}

    @property
    def _limits(self) -> ContextLimits:
        return self.model.limits
