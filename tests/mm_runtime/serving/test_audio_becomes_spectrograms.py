"""Audio becomes the log-mel spectrogram that transformers' feature extractor makes of it."""

from pathlib import Path

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from mm_runtime.serving.preprocess.audio.spectrogram import LogMel
from support.audio_files import noise
from support.cases import cases


@cases(
    "bins seconds",
    {
        "large-v2": (80, 2.5),
        "large-v3": (128, 2.5),
        "a-full-window": (80, 30.0),
        "ten-milliseconds": (80, 0.01),
    },
)
def test_equals_transformers(tmp_path: Path, bins: int, seconds: float) -> None:
    audio = noise(seconds, seed=1)
    extractor = WhisperFeatureExtractor(feature_size=bins)
    extractor.save_pretrained(tmp_path)
    spectrogram = LogMel.from_folder(tmp_path, bins=bins, frames=3000)
    expected = extractor(audio, sampling_rate=16_000, return_tensors="np").input_features[0].T
    found = spectrogram(audio)
    assert (3000, bins) == found.shape
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_another_rate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text('{"sampling_rate": 8000}')
    with pytest.raises(ValueError, match="sampling_rate is 8000, expected 16000"):
        LogMel.from_folder(tmp_path, bins=80, frames=3000)
