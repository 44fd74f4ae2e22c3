"""The checkpoint's tokenizer without transformers: encode, decode, special ids."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from mm_runtime.base.chat_template_files import DICTIONARY_SIZE, read_object, special_tokens
from mm_runtime.serving.prompts.spelling import Spelled, Speller

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"


CHARACTERS_PER_TOKEN = 64
"""More than texts have for each of their tokens: four are usual, and only runs of blanks have more.
To count the tokens of 5 MB takes 18 s of the process that prepares all requests."""


def surely_exceeds(text: str, tokens: int) -> bool:
    """Return, without counting, whether a text is longer than texts of so many tokens are."""
    return len(text) > tokens * CHARACTERS_PER_TOKEN


class TextCodec:
    """Text <-> token ids of one checkpoint."""

    def __init__(self, folder: Path) -> None:
        """Load `tokenizer.json` and `tokenizer_config.json` of a processor folder.

        Raises:
            OSError: the tokenizer is missing.
            ValueError: the configuration is not JSON, or names an unknown end token.
        """
        self._tokenizer: Any = Tokenizer.from_str((folder / TOKENIZER).read_text(encoding="utf-8"))
        named = special_tokens(folder)
        self.begin_token = named.get("bos_token")
        end_token = named.get("eos_token")
        end_id = self.id_of(end_token) if end_token else None
        if end_id is None:
            raise ValueError(
                f"{folder / TOKENIZER_CONFIG}: eos_token {end_token!r} is not in the vocabulary"
            )
        self.end_id = end_id
        pad_token = named.get("pad_token")
        pad_id = self.id_of(pad_token) if pad_token else None
        self.pad_id = end_id if pad_id is None else pad_id
        self._speller = Speller(self._tokenizer)
        self._words = int(read_object(folder / TOKENIZER_CONFIG).get(DICTIONARY_SIZE, 0))
        self._unknown = self.id_of("<unk>") or 0

    @property
    def size(self) -> int:
        """Return how many tokens there are; a model may know fewer, or have room for more."""
        count: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        return count

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """Texts that become one token with a meaning of its own wherever they stand."""
        added = self._tokenizer.get_added_tokens_decoder().values()
        return tuple(token.content for token in added if token.special and token.content.strip())

    @property
    def special_ids(self) -> tuple[int, ...]:
        added = self._tokenizer.get_added_tokens_decoder().items()
        return tuple(token for token, one in added if one.special)

    @property
    def strips_first(self) -> bool:
        """Return whether a text's first token loses its blank when it is decoded."""
        return self._speller.strips_first

    def name_of(self, token: int) -> str:
        """Return what the vocabulary calls a token; empty where there is none."""
        return self._tokenizer.id_to_token(token) or ""

    def id_of(self, token: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    def encode_prompt(self, prompt: str) -> list[int]:
        """Return the ids of a complete prompt, begin token included exactly once."""
        begins = self.begin_token is not None and prompt.startswith(self.begin_token)
        return self._encode(prompt, special=not begins)

    def encode_word(self, word: str) -> list[int]:
        """Return the ids of a stop or bad word, no special tokens added."""
        return self._encode(word, special=False)

    def _encode(self, text: str, *, special: bool) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=special).ids
        return [self._unknown if one >= self._words else one for one in ids] if self._words else ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids; special tokens are left out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def decode_all(self, ids: Sequence[int]) -> str:
        """Return the text of the ids, special tokens among it."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def spell(self, token: int) -> Spelled:
        return self._speller.spell(token)
