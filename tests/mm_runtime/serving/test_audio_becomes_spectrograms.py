"""Audio becomes the log-mel spectrogram that transformers' feature extractor makes of it."""

from pathlib import Path

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from mm_runtime.serving.preprocess.audio.spectrogram import LogMel
from support.audio_files import noise


@pytest.mark.parametrize(
    ("bins", "seconds"),
    [
        pytest.param(80, 2.5, id="large-v2"),
        pytest.param(128, 2.5, id="large-v3"),
        pytest.param(80, 30.0, id="a-full-window"),
        pytest.param(80, 0.01, id="ten-milliseconds"),
    ],
)
def test_equals_transformers(tmp_path: Path, bins: int, seconds: float) -> None:
    """Every value is that of the checkpoint's own extractor, for short clips and full windows."""
    audio = noise(seconds, seed=1)
    extractor = WhisperFeatureExtractor(feature_size=bins)
    extractor.save_pretrained(tmp_path)
    spectrogram = LogMel.from_folder(tmp_path, bins=bins, frames=3000)
    expected = extractor(audio, sampling_rate=16_000, return_tensors="np").input_features[0].T
    found = spectrogram(audio)
    assert (3000, bins) == found.shape
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_another_rate_is_refused(tmp_path: Path) -> None:
    """A checkpoint of another rate would read everything too fast or too slow."""
    (tmp_path / "preprocessor_config.json").write_text('{"sampling_rate": 8000}')
    with pytest.raises(ValueError, match="sampling_rate is 8000, expected 16000"):
        LogMel.from_folder(tmp_path, bins=80, frames=3000)
