"""Prompts of completions that come as ids of tokens, which reach the engine as they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.ids import check_prompt
from mm_runtime.serving.prompts.tokens import TextCodec


@dataclass(frozen=True, slots=True)
class TokenPrompts:
    """Which ids one model reads.

    Attributes:
        codec: its tokenizer.
        media_ids: tokens that stand for images or other media.
        vocabulary_size: of the model.
        reads_text: the checkpoint's own processor makes the ids, of texts only.
    """

    codec: TextCodec
    media_ids: frozenset[int]
    vocabulary_size: int
    reads_text: bool

    def text_of(self, ids: Sequence[int], param: str) -> str:
        """Return the text of a prompt, special tokens among it.

        `param`: the part of the request that holds them.

        Raises:
            InvalidRequestError: ids that the model cannot read.
        """
        if self.reads_text:
            raise InvalidRequestError(
                f"`{param}` must be a text: this model's own processor makes the ids of tokens.",
                param=param,
                code="unsupported_parameter",
            )
        try:
            check_prompt(ids, self.media_ids, self.vocabulary_size)
        except RequestError as error:
            raise InvalidRequestError(f"`{param}`: {error}.", param=param) from error
        return self.codec.decode_all(ids)
