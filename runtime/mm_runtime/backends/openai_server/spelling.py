"""Whether a model's vocabulary can spell a form: servers fail on one that it cannot."""

from collections.abc import Sequence

from mm_runtime.reference_engine.guides import Guides, UnspelledError
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import GuideRequest
from mm_runtime.serving.prompts.tokens import TextCodec


class Spelling:
    """The vocabulary of one model."""

    def __init__(self, codec: TextCodec, vocabulary_size: int) -> None:
        """Read nothing yet: for most models it is never needed."""
        self._codec = codec
        self._size = vocabulary_size
        self._guides = Guides(
            codec, vocabulary_size=vocabulary_size, end_ids=frozenset({codec.end_id})
        )
        self._has_all: bool | None = None

    def lacks(self, form: GuideRequest, answer: Sequence[int]) -> bool:
        """Return whether no token may follow an answer of this form; takes up to seconds."""
        if self._has_all is None:
            tokens = range(min(self._size, self._codec.size))
            spelled = {self._codec.spell(token).content for token in tokens}
            self._has_all = spelled.issuperset(bytes([byte]) for byte in range(256))
        if self._has_all:
            return False
        try:
            self._guides.make(form).allowed(answer)
        except UnspelledError:
            return True
        except RequestError:  # other libraries read other patterns
            return False
        return False
