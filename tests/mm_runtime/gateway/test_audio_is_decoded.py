"""Files of audio clips become samples as the model reads them, or are refused with a message."""

import io
import wave

import numpy as np
import pytest

from mm_runtime.gateway.media.audio import decode_audio, encode_wav
from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.serving.preprocess.audio.tones import FULL_SCALE, sample_audio
from support.audio_files import RATE, encode_audio, noise
from support.cases import cases

MOST = 30 * RATE


def _wav(samples: bytes) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes(samples)
    return file.getvalue()


def test_wav_of_the_models_rate_is_untouched() -> None:
    """Sixteen-bit samples at the model's rate are the samples, divided by 32768."""
    samples = (noise(0.5, seed=3) * 20_000).astype("<i2")
    found = decode_audio(_wav(samples.tobytes()), most_samples=MOST)
    np.testing.assert_array_equal(samples / np.float32(32768), found)


def test_a_file_of_our_own_audio_is_the_audio() -> None:
    """What a pod sends through its front door is, sample by sample, what a build sends inside."""
    found = decode_audio(encode_wav(sample_audio()), most_samples=MOST)
    np.testing.assert_array_equal(sample_audio(), found)


FLAC = encode_audio(noise(1.0, seed=4), "flac", "flac")


@cases(
    "encoded words",
    {
        "a-page": (b"<html>no audio</html>", "not a recording of a known"),
        "an-image": (b"\x89PNG\r\n\x1a\n" + bytes(99), "not a recording of a known"),
        "no-samples": (_wav(b""), "no samples"),
        "truncated-header": (FLAC[:60], "damaged|truncated|no samples"),
        "garbage-after-mark": (b"fLaC" + bytes(500), "damaged|truncated|no audio"),
        "too-long": (encode_audio(noise(31.0, seed=1)), "longer than 30 seconds"),
        "other-codec": (
            encode_audio(noise(1.0, seed=1), "matroska", "ac3", rate=48_000),
            "encoded as ac3, which is not read here",
        ),
    },
)
def test_refused(encoded: bytes, words: str) -> None:
    """What is no audio that is read here is refused, and the message says why."""
    with pytest.raises(BadRecordingError, match=words):
        decode_audio(encoded, most_samples=MOST)


def test_the_loudest_samples_keep_their_sign() -> None:
    """Also +1.0, for which sixteen bits have no step."""
    loud = np.array([1.0, -1.0, 0.0], dtype=np.float32)
    found = decode_audio(encode_wav(loud), most_samples=MOST)
    assert np.allclose(found, loud, atol=1 / FULL_SCALE)
