"""What a family that reads audio needs: its spectrogram, and the prefix of its answers.

Gateway and Triton read it alike; nothing here needs a vision engine or torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.modalities import transcribes
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.audio.spectrogram import LogMel
from mm_runtime.serving.prompts.starts import decoder_start
from mm_runtime.serving.prompts.tokens import TextCodec

START = "<|startoftranscript|>"
NO_TIMESTAMPS = "<|notimestamps|>"
NO_SPEECH = ("<|nospeech|>", "<|nocaptions|>")
"""What audio is in which nothing is said, as newer and as older checkpoints spell it."""

DEFAULT_LANGUAGE = "en"
TRANSCRIBE = "transcribe"
ENGLISH_VOCABULARY = 51_864
"""Tokens of checkpoints that were trained on English alone; the others have more."""


@dataclass(frozen=True)
class Prefixes:
    """What a checkpoint's decoder begins with: language and task are tokens."""

    codec: TextCodec
    start: int
    """The token that every answer begins with."""

    languages: Mapping[str, int] = field(default_factory=dict)
    """Code -> token of each language that the checkpoint can detect; empty: it detects none."""

    first_time: int | None = None
    """Token of the time 0.00; those of later times follow to the vocabulary's end. None: the
    checkpoint has none."""

    latest_start: int | None = None
    """Times after the first one at which an answer may begin; None: any."""

    english_only: bool = False
    """It was trained on English alone: it has the tokens of languages and tasks, and never saw
    them, so with them its answers are worse."""

    @classmethod
    def load(cls, engine: EngineDirectory, codec: TextCodec) -> "Prefixes":
        chosen = engine.generation
        return cls(
            codec,
            decoder_start(engine.configs)[0],
            _languages(chosen),
            _first_time(chosen, codec, engine),
            chosen.get("max_initial_timestamp_index"),
            _english_only(chosen, engine.facts.text.vocabulary_size),
        )

    def no_speech(self, logits: NDArray[np.float32]) -> float | None:
        """Return how likely it is that nothing is said, as OpenAI's program computes it.

        `logits`: float32 [vocabulary] of the token after the start, as of `detected`.
        """
        known = (self.codec.id_of(one) for one in NO_SPEECH)
        token = next((one for one in known if one is not None), None)
        if token is None:
            return None
        powers = np.exp(logits - logits.max())
        return float(powers[token] / powers.sum())

    def detected(self, logits: NDArray[np.float32]) -> str:
        """Return the language that is likeliest to follow the start, as transformers chooses it."""
        return max(self.languages, key=lambda code: float(logits[self.languages[code]]))

    def knows(self, task: str) -> bool:
        """Return whether the checkpoint has learnt a task; all write down what is said."""
        return task == TRANSCRIBE or not (
            self.english_only or self.codec.id_of(f"<|{task}|>") is None
        )

    def write(self, language: str | None, task: str = TRANSCRIBE, *, timed: bool = False) -> str:
        """Return the prefix of a language and a task; a checkpoint of one language has no choice.

        `language`: its code, or None for the default. `task`: `transcribe`, or `translate` into
        English.

        Raises:
            RequestError: the checkpoint does not know the language.
        """
        requested = language or DEFAULT_LANGUAGE
        if self.english_only:
            return self._english(requested, task, timed=timed)
        known = self.codec.id_of(f"<|{requested}|>") is not None
        one_language = self.codec.id_of(f"<|{DEFAULT_LANGUAGE}|>") is None
        if not known and not (one_language and requested == DEFAULT_LANGUAGE):
            raise RequestError(
                f"the model has no language {requested[:20]!r}; "
                "expected a code such as 'en' or 'de'"
            )
        tokens = (START, f"<|{requested}|>", f"<|{task}|>", *(() if timed else (NO_TIMESTAMPS,)))
        return "".join(one for one in tokens if self.codec.id_of(one) is not None)

    def _english(self, requested: str, task: str, *, timed: bool) -> str:
        """Return the prefix of a checkpoint of English alone: without language and task."""
        if requested != DEFAULT_LANGUAGE or task != TRANSCRIBE:
            raise RequestError(
                "the model was trained on English alone and only writes it down; "
                f"{requested[:20]!r} and {task[:20]!r} were requested"
            )
        return START if timed else START + NO_TIMESTAMPS

    def ids(self, prefix: str) -> list[int]:
        """Return the ids of a prefix; an empty one is the default's.

        Raises:
            RequestError: it begins with another token than the decoder does.
        """
        ids = self.codec.encode_word(prefix or self.write(None))
        if ids[:1] != [self.start]:
            raise RequestError(
                f"the prefix {prefix[:60]!r} does not begin with {START}; send an empty one for "
                f"{self.write(None)}"
            )
        return ids


def _english_only(chosen: Mapping[str, Any], vocabulary: int) -> bool:
    said = chosen.get("is_multilingual")
    return vocabulary == ENGLISH_VOCABULARY if said is None else not said


def _first_time(chosen: Mapping[str, Any], codec: TextCodec, engine: EngineDirectory) -> int | None:
    """Return the first of the tokens of times, where there is one for each place of a window."""
    encoder = engine.facts.encoder
    before = chosen.get("no_timestamps_token_id", codec.id_of(NO_TIMESTAMPS))
    if before is None or encoder is None or encoder.max_positions is None:
        return None
    known = engine.facts.text.vocabulary_size - (before + 1)
    return before + 1 if known > encoder.max_positions else None


def _languages(chosen: Mapping[str, Any]) -> dict[str, int]:
    known = chosen.get("lang_to_id") or {}
    return {token.removeprefix("<|").removesuffix("|>"): at for token, at in known.items()}


def load_spectrogram(engine: EngineDirectory) -> LogMel:
    """Return the spectrogram that an engine's encoder reads.

    Raises:
        ValueError: the engine's encoder reads no spectrogram.
    """
    encoder = engine.facts.encoder
    if encoder is None or encoder.mel_bins is None or encoder.max_positions is None:
        raise ValueError(f"{engine.root}: the engine's encoder reads no audio")
    frames = 2 * encoder.max_positions
    return LogMel.from_folder(engine.processor, bins=encoder.mel_bins, frames=frames)


def accepts_audio(engine: EngineDirectory) -> bool:
    return transcribes(engine.facts)
