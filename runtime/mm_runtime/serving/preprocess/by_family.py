"""The model `preprocessing`, by family; of one that reads audio: samples to a spectrogram."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.audio.prefixes import Prefixes, accepts_audio, load_spectrogram
from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE
from mm_runtime.serving.preprocess.audio.spectrogram import LogMel
from mm_runtime.serving.preprocess.preprocessing import NOTHING, Preprocessor
from mm_runtime.serving.preprocess.remote_images import Fetched
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.word_tensors import bias_tensor, end_tensors, word_tensors
from mm_runtime.serving.tensors import Tensors, scalar, single, texts

Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class AudioPreprocessor:
    """Everything that preparing audio needs, loaded once."""

    codec: TextCodec
    prefixes: Prefixes
    spectrogram: LogMel
    engine: EngineDirectory

    @classmethod
    def load(cls, engine: EngineDirectory) -> "AudioPreprocessor":
        codec = TextCodec(engine.tokenizer)
        return cls(codec, Prefixes.load(engine, codec), load_spectrogram(engine), engine)

    def remote_urls(self, inputs: Tensors) -> list[str]:
        """Return no URLs: audio travels in the request."""
        del inputs
        return []

    def prepare(
        self, inputs: Tensors, fetched: Fetched = NOTHING, requested: Collection[str] = ()
    ) -> Outputs:
        """Return the outputs of one request.

        `inputs`: `QUERY` (the decoder's prefix), `WAV` or `SPECTROGRAM`, and the optional tensors
        of the model.

        Raises:
            RequestError: what is wrong and what was expected.
        """
        del fetched, requested
        features = self._features(inputs)
        ids = self.prefixes.ids(next(iter(texts(inputs, "QUERY")), ""))
        limits = self.engine.limits
        if len(ids) > limits.max_input_len:
            raise RequestError(
                f"the prefix has {len(ids)} tokens; at most {limits.max_input_len} are allowed "
                "(maxInputLen)"
            )
        requested = scalar(inputs, "REQUEST_OUTPUT_LEN")
        most = limits.max_seq_len - len(ids) if requested is None else requested
        vocabulary = self.engine.facts.text.vocabulary_size
        outputs: Outputs = {
            "ENCODER_INPUT_FEATURES": features[np.newaxis],
            # Two convolutions halve the frames.
            "ENCODER_OUTPUT_LENGTHS": np.array([[len(features) // 2]], dtype=np.int32),
            "REQUEST_INPUT_LEN": np.array([[len(features)]], dtype=np.int32),
            "DECODER_INPUT_ID": np.array([ids], dtype=np.int32),
            "REQUEST_DECODER_INPUT_LEN": np.array([[len(ids)]], dtype=np.int32),
            "REQUEST_OUTPUT_LEN": np.array([[most]], dtype=np.int32),
            **end_tensors(inputs, self.codec, vocabulary),
        }
        outputs |= word_tensors(inputs, self.codec, vocabulary)
        return outputs | bias_tensor(inputs, self.codec, vocabulary)

    def _features(self, inputs: Tensors) -> NDArray[np.float32]:
        """Return the spectrogram [frames, bins] of a request: its own, or that of its samples."""
        given = single(inputs, "SPECTROGRAM")
        if given is None:
            return self.spectrogram(self._audio(inputs))
        if "WAV" in inputs:
            raise RequestError("send WAV or SPECTROGRAM, not both")
        wanted = (self.spectrogram.frames, self.spectrogram.bins)
        if given.shape != wanted:
            raise RequestError(f"SPECTROGRAM has shape {list(given.shape)}, expected {[*wanted]}")
        if not np.isfinite(given).all():
            raise RequestError("SPECTROGRAM: holds NaN or infinite values")
        features: NDArray[np.float32] = given.astype(np.float32, copy=False)
        return features

    def _audio(self, inputs: Tensors) -> NDArray[np.floating[Any]]:
        audio = single(inputs, "WAV")
        if audio is None:
            raise RequestError(f"WAV is missing: audio samples, {SAMPLE_RATE} a second")
        length = scalar(inputs, "WAV_LENS")
        if length is not None and not 1 <= length <= len(audio):
            raise RequestError(f"WAV_LENS is {length}, but WAV holds {len(audio)} samples")
        audio = audio[:length]
        most = self.spectrogram.samples
        if not 1 <= len(audio) <= most:
            raise RequestError(
                f"WAV has {len(audio)} samples; 1 to {most} are allowed "
                f"({self.spectrogram.seconds:g} seconds, {SAMPLE_RATE} a second)"
            )
        if not np.isfinite(audio).all():
            raise RequestError("WAV: holds NaN or infinite values, expected samples of -1 to 1")
        return audio


def load_preprocessor(
    engine: EngineDirectory, serving: ServingPlan
) -> Preprocessor | AudioPreprocessor:
    if accepts_audio(engine):
        return AudioPreprocessor.load(engine)
    return Preprocessor.load(engine, serving)
