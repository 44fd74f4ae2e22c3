"""The model `preprocessing` of a family that hears: samples to a spectrogram, a prefix to ids."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.engine.directory import EngineDirectory
from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.preprocessing import NOTHING, Preprocessor
from mm_runtime.engine.remote_pictures import Fetched
from mm_runtime.engine.spectrogram import SAMPLE_RATE, LogMel
from mm_runtime.engine.starts import decoder_start
from mm_runtime.engine.tensors import Tensors, scalar, single, texts
from mm_runtime.engine.tokens import TextCodec
from mm_runtime.engine.word_tensors import bias_tensor, word_tensors

Outputs = dict[str, NDArray[Any]]

START = "<|startoftranscript|>"
NO_TIMESTAMPS = "<|notimestamps|>"
DEFAULT_LANGUAGE = "en"
TRANSCRIBE = "transcribe"


@dataclass(frozen=True)
class Prefixes:
    """What a checkpoint's decoder begins with: language and task are tokens."""

    codec: TextCodec
    start: int
    """The token that every answer begins with."""

    def write(self, language: str | None, task: str = TRANSCRIBE) -> str:
        """Return the prefix of a language and a task; a checkpoint of one language has no choice.

        Args:
            language: its code, or None for the default.
            task: `transcribe`, or `translate` into English.

        Raises:
            RequestError: the checkpoint does not know the language.
        """
        asked = language or DEFAULT_LANGUAGE
        known = self.codec.id_of(f"<|{asked}|>") is not None
        one_language = self.codec.id_of(f"<|{DEFAULT_LANGUAGE}|>") is None
        if not known and not (one_language and asked == DEFAULT_LANGUAGE):
            raise RequestError(
                f"the model has no language {asked[:20]!r}; expected a code such as 'en' or 'de'"
            )
        tokens = (START, f"<|{asked}|>", f"<|{task}|>", NO_TIMESTAMPS)
        return "".join(one for one in tokens if self.codec.id_of(one) is not None)

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


@dataclass(frozen=True)
class SoundPreprocessor:
    """Everything that preparing a sound needs, loaded once."""

    codec: TextCodec
    prefixes: Prefixes
    spectrogram: LogMel
    engine: EngineDirectory

    @classmethod
    def load(cls, engine: EngineDirectory) -> "SoundPreprocessor":
        """Read tokenizer and feature extractor of the engine.

        Raises:
            OSError, ValueError: a file is missing or not understood.
        """
        codec = TextCodec(engine.tokenizer)
        prefixes = Prefixes(codec, decoder_start(engine.llm)[0])
        return cls(codec, prefixes, load_spectrogram(engine), engine)

    def remote_urls(self, inputs: Tensors) -> list[str]:
        """Return no URLs: sounds travel in the request."""
        del inputs
        return []

    def prepare(self, inputs: Tensors, fetched: Fetched = NOTHING) -> Outputs:
        """Return the outputs of one request.

        Args:
            inputs: `QUERY` (the decoder's prefix), `WAV`, and the optional tensors of the model.
            fetched: nothing.

        Raises:
            RequestError: what is wrong and what was expected.
        """
        del fetched
        features = self.spectrogram(self._sound(inputs))
        ids = self.prefixes.ids(next(iter(texts(inputs, "QUERY")), ""))
        limits = self.engine.limits
        if len(ids) > limits.max_input_len:
            raise RequestError(
                f"the prefix has {len(ids)} tokens; at most {limits.max_input_len} are allowed "
                "(maxInputLen)"
            )
        asked = scalar(inputs, "REQUEST_OUTPUT_LEN")
        most = limits.max_seq_len - len(ids) if asked is None else asked
        end_id, pad_id = scalar(inputs, "END_ID"), scalar(inputs, "PAD_ID")
        outputs: Outputs = {
            "ENCODER_INPUT_FEATURES": features[np.newaxis],
            # Two convolutions halve the frames.
            "ENCODER_OUTPUT_LENGTHS": np.array([[len(features) // 2]], dtype=np.int32),
            "REQUEST_INPUT_LEN": np.array([[len(features)]], dtype=np.int32),
            "DECODER_INPUT_ID": np.array([ids], dtype=np.int32),
            "REQUEST_DECODER_INPUT_LEN": np.array([[len(ids)]], dtype=np.int32),
            "REQUEST_OUTPUT_LEN": np.array([[most]], dtype=np.int32),
            "OUT_END_ID": np.array([[self.codec.end_id if end_id is None else end_id]], np.int32),
            "OUT_PAD_ID": np.array([[self.codec.pad_id if pad_id is None else pad_id]], np.int32),
        }
        outputs |= word_tensors(inputs, self.codec)
        return outputs | bias_tensor(inputs, self.codec, self.engine.facts.text.vocabulary_size)

    def _sound(self, inputs: Tensors) -> NDArray[np.floating[Any]]:
        """Return the samples of a request.

        Raises:
            RequestError: none, too many, or values that are no sound.
        """
        sound = single(inputs, "WAV")
        if sound is None:
            raise RequestError(f"WAV is missing: the samples of a sound, {SAMPLE_RATE} a second")
        length = scalar(inputs, "WAV_LENS")
        if length is not None and not 1 <= length <= len(sound):
            raise RequestError(f"WAV_LENS is {length}, but WAV holds {len(sound)} samples")
        sound = sound[:length]
        most = self.spectrogram.samples
        if not 1 <= len(sound) <= most:
            raise RequestError(
                f"WAV has {len(sound)} samples; 1 to {most} are allowed "
                f"({self.spectrogram.seconds:g} seconds, {SAMPLE_RATE} a second)"
            )
        if not np.isfinite(sound).all():
            raise RequestError("WAV: holds NaN or infinite values, expected samples of -1 to 1")
        return sound


def load_spectrogram(engine: EngineDirectory) -> LogMel:
    """Return the spectrogram that an engine's encoder reads.

    Raises:
        ValueError: the engine's encoder reads no spectrogram.
    """
    encoder = engine.facts.encoder
    if encoder is None or encoder.mel_bins is None or encoder.max_positions is None:
        raise ValueError(f"{engine.root}: the engine's encoder reads no sound")
    frames = 2 * encoder.max_positions
    return LogMel.from_folder(engine.processor, bins=encoder.mel_bins, frames=frames)


def load_preprocessor(
    engine: EngineDirectory, serving: ServingPlan
) -> Preprocessor | SoundPreprocessor:
    """Return what prepares an engine's requests.

    Raises:
        OSError, ValueError, KeyError: a file is missing or not understood.
    """
    if hears(engine):
        return SoundPreprocessor.load(engine)
    return Preprocessor.load(engine, serving)


def hears(engine: EngineDirectory) -> bool:
    """Say whether the engine's encoder reads sound."""
    encoder = engine.facts.encoder
    return encoder is not None and encoder.mel_bins is not None
