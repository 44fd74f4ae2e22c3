"""Answers of a form: which tokens may come next, by the library llguidance.

A guide follows one answer. What it allows depends on the tokens before alone, so a step that is
computed again gets the same.

Time stamps follow transformers' `WhisperTimeStampLogitsProcessor`, whose rules are OpenAI's; a test
compares answers. Times come in pairs around each piece of text, and never go back.
"""

import json
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import GuideKind, GuideRequest
from mm_runtime.serving.prompts.tokens import TextCodec


class TimestampGuide:
    """What may come next in one answer."""

    def __init__(self, *, first_time: int, latest_start: int | None, size: int, end: int) -> None:
        """Begin an answer.

        `first_time`: token of the time 0.00; the vocabulary ends with those of later times.
        `latest_start`: times after it at which the answer may begin; None: any. `end`: the end
        token; texts are below it.
        """
        self.together_from: int | None = first_time
        self._latest_start = latest_start
        self._size = size
        self._end = end

    @classmethod
    def read(cls, text: str, *, size: int, end: int) -> "TimestampGuide":
        """Read JSON with `first_time` and `latest_start`; else raise a RequestError."""
        try:
            found = json.loads(text)
            first, latest = found["first_time"], found["latest_start"]
        except (ValueError, TypeError, KeyError):
            raise RequestError(
                "guided_decoding_guide (timestamps): expected JSON with first_time and latest_start"
            ) from None
        known = type(first) is int and 1 <= first < size
        if not known or not (latest is None or (type(latest) is int and latest >= 0)):
            raise RequestError(
                f"guided_decoding_guide (timestamps): expected first_time from 1 to {size - 1} and "
                "latest_start as null or a number of times"
            )
        return cls(first_time=first, latest_start=latest, size=size, end=end)

    def allowed(self, answer: Sequence[int]) -> NDArray[np.bool_]:
        """Return [vocabulary]: which tokens may follow an answer."""
        first = self.together_from
        assert first is not None  # noqa: S101  # set when the answer began
        allowed = np.ones(self._size, np.bool_)
        allowed[first - 1] = False  # <|notimestamps|>, which precedes the times
        if not answer:
            allowed[:first] = False
            if self._latest_start is not None:
                allowed[first + self._latest_start + 1 :] = False
            return allowed
        was_time = answer[-1] >= first
        was_pair = all(token >= first for token in answer[-2:-1])
        if was_time and was_pair:
            allowed[first:] = False
        elif was_time:
            allowed[: self._end] = False
        times = [token for token in answer if token >= first]
        if times:
            # A text takes some time; the next one may begin where the last ended.
            allowed[first : times[-1] + (0 if was_time and not was_pair else 1)] = False
        return allowed


_ANY_OBJECT = '{"type": "object"}'
_CAUSE = "error: "
"""Begins a line of the library's about a pattern that cannot be read."""


class Guides:
    """Makes the guides of one model's requests."""

    def __init__(self, codec: TextCodec, *, vocabulary_size: int, end_ids: frozenset[int]) -> None:
        """Remember what the vocabulary is made of; the first guide spells it out, in seconds."""
        self._codec = codec
        self._size = vocabulary_size
        self._ends = sorted(end_ids)
        self._tokens: LLTokenizer | None = None
        self._making = threading.Lock()

    def make(self, request: GuideRequest) -> "Guide | TimestampGuide":
        """Return the guide of an answer.

        Raises:
            RequestError: no schema or pattern that is understood.
        """
        if request.kind is GuideKind.TIMESTAMPS:
            return TimestampGuide.read(request.text, size=self._size, end=self._ends[0])
        with self._making:
            if self._tokens is None:
                self._tokens = self._spelled()
        matcher = LLMatcher(self._tokens, self._grammar(request), log_level=0)
        if matcher.is_error():
            reason = _reason(matcher.get_error())
            raise RequestError(f"guided_decoding_guide ({request.kind}): {reason}")
        return Guide(matcher, self._size)

    def _grammar(self, request: GuideRequest) -> str:
        # A tokenizer that leaves out the blank of a text's first token does so in an answer, too.
        blank = '" "? ' if self._codec.strips_first else ""
        try:
            match request.kind:
                case GuideKind.JSON | GuideKind.JSON_SCHEMA:
                    schema = json.dumps(json.loads(request.text or _ANY_OBJECT))
                    lark = f"start: {blank}found\nfound: %json {schema}\n"
                case GuideKind.REGEX:
                    pattern = f" ?({request.text})" if blank else request.text
                    return str(LLMatcher.grammar_from_regex(pattern))
                case _:
                    outer = {"lark_grammar": f"start: {blank}@found\n"}
                    inner = {"name": "found", "lark_grammar": request.text}
                    return json.dumps({"grammars": [outer, inner]})
        except ValueError as error:
            raise RequestError(f"guided_decoding_guide: {error}") from None
        return str(LLMatcher.grammar_from_lark(lark))

    def _spelled(self) -> LLTokenizer:
        vocabulary = _Vocabulary(self._codec, self._size, self._ends[0])
        return LLTokenizer(
            TokenizerWrapper(vocabulary), n_vocab=len(vocabulary.tokens), eos_token=self._ends
        )


def _reason(error: str) -> str:
    first, *below = error.strip().split("\n")
    causes = [line.removeprefix(_CAUSE) for line in below if line.startswith(_CAUSE)]
    return " ".join([first, *causes])


class Guide:
    """What may come next in one answer."""

    together_from: int | None = None

    def __init__(self, matcher: Any, size: int) -> None:
        self._matcher = matcher
        self._size = size
        self._seen = 0
        self._allowed: NDArray[np.bool_] | None = None

    def allowed(self, answer: Sequence[int]) -> NDArray[np.bool_]:
        """Return [vocabulary]: which tokens may follow an answer, which only ever grows.

        Raises:
            RequestError: the answer has left its form, no token keeps to it, or following it takes
                too much.
        """
        if self._allowed is None or len(answer) > self._seen:
            self._matcher.consume_tokens(list(answer[self._seen :]))
            self._seen = len(answer)
            bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            if self._matcher.is_error():
                reason = _reason(self._matcher.get_error())
                raise RequestError(f"guided_decoding_guide: {reason}")
            found = np.unpackbits(bits, bitorder="little")[: self._size]
            if not found.any():
                # Not all vocabularies have all letters: without bytes there is no way to the rest.
                raise RequestError(
                    "guided_decoding_guide: no token of the model's vocabulary may come after the "
                    f"{self._seen} of the answer; it cannot spell what the form needs"
                )
            self._allowed = found.astype(np.bool_)
        return self._allowed


class _Vocabulary:
    """A tokenizer as llguidance wants it."""

    bos_token_id = None

    def __init__(self, codec: TextCodec, size: int, end: int) -> None:
        self.eos_token_id = end
        self.special_token_ids = [one for one in codec.special_ids if one < size]
        special = set(self.special_token_ids)
        known = min(size, codec.size)
        self.tokens = [
            codec.name_of(token).encode() if token in special else codec.spell(token).content
            for token in range(known)
        ]
        # A model may have room for more tokens than there are: they can never be said.
        self.tokens += [b""] * (size - known)
        # Vocabularies of words have no token for a blank alone, which forms want to count with.
        # These lie past the logits: they are never chosen.
        ids = {content: token for token, content in enumerate(self.tokens) if content}
        bytes_ = (bytes([byte]) for byte in range(256))
        self.tokens += [one for one in bytes_ if one not in ids]
        self._ids = {content: token for token, content in enumerate(self.tokens) if content}
        self._longest = max(map(len, self._ids))
        self._codec = codec

    def __call__(self, text: str) -> list[int]:
        """Return the tokens of a text, which have its very bytes."""
        content = text.encode()
        tokens = self._codec.encode_word(text)
        if b"".join(self.tokens[token] for token in tokens) == content:
            return tokens
        tokens, at = [], 0
        while at < len(content):
            size = next(
                size
                for size in range(min(self._longest, len(content) - at), 0, -1)
                if content[at : at + size] in self._ids
            )
            tokens.append(self._ids[content[at : at + size]])
            at += size
        return tokens
