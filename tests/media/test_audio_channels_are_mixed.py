"""Whatever channels a recording has, what is said in one of them reaches the model."""

import io
import wave

import numpy as np
import pytest
from numpy.typing import NDArray

from mm_runtime.gateway.media.audio import decode_audio
from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE
from support.audio_channels import RATE, recording, tone
from support.cases import cases

MOST = 30 * SAMPLE_RATE
TONE = tone()
NOTHING = np.zeros_like(TONE)
OTHER = tone(hertz=700)
LOW = tone(hertz=60)


def _loudness(samples: NDArray[np.float32]) -> float:
    return float(np.sqrt((samples**2).mean()))


FULL = _loudness(TONE)


@cases(
    "channels layout part",
    {
        "mono": ([TONE], "mono", 1),
        "the-same-twice": ([TONE, TONE], "stereo", 1),
        "opposite-phases": ([TONE, -TONE], "stereo", 1),
        "nearly-opposite-phases": ([TONE, -0.9 * TONE], "stereo", 1),
        "left-alone": ([TONE, NOTHING], "stereo", 0.5),
        "right-alone": ([NOTHING, TONE], "stereo", 0.5),
        "two-speakers": ([TONE, OTHER], "stereo", 0.7),
        "centre": ([NOTHING, NOTHING, TONE, NOTHING, NOTHING, NOTHING], "5.1", 0.29),
        "5.1-phases": ([TONE, -TONE, NOTHING, NOTHING, NOTHING, NOTHING], "5.1", 1),
        "subwoofer": ([NOTHING, NOTHING, NOTHING, LOW, NOTHING, NOTHING], "5.1", 1),
        "4.0-phases": ([TONE, -TONE, TONE, -TONE], "4.0", 1),
    },
)
@cases("container codec", {"wav": ("wav", "pcm_s16le"), "m4a": ("ipod", "aac")})
def test_layouts(
    channels: list[NDArray[np.float32]], layout: str, part: float, container: str, codec: str
) -> None:
    """The mix is FFmpeg's; where it loses nine tenths of the power, it is the loudest channel."""
    found = decode_audio(recording(channels, container, codec, layout=layout), most_samples=MOST)

    assert _loudness(found) == pytest.approx(part * FULL, rel=0.12)


def test_eight_channels() -> None:
    """PyAV reads beyond the planes of frames with eight, and the decoder's process ended."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((8, 2, RATE, 0, "NONE", ""))
        writer.writeframes((np.stack([TONE, -TONE] * 4, axis=1) * 32_767).astype("<i2").tobytes())

    assert _loudness(decode_audio(file.getvalue(), most_samples=MOST)) == pytest.approx(FULL, 0.1)


def test_phases_that_change() -> None:
    """Speech of opposite phase behind music that is not: it is decided for each second."""
    left = tone(4.0)
    right = np.concatenate([left[: len(left) // 2], -left[len(left) // 2 :]])
    found = decode_audio(recording([left, right]), most_samples=MOST)
    each = [_loudness(one) for one in np.split(found, 4)]

    assert each == pytest.approx([FULL] * 4, rel=0.05)


def test_silence_stays_silence() -> None:
    assert not decode_audio(recording([NOTHING, NOTHING]), most_samples=MOST).any()


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 96_000, 192_000])
def test_rates(rate: int) -> None:
    samples = tone(rate=rate)
    found = decode_audio(recording([samples, -samples], rate=rate), most_samples=MOST)

    assert len(found) == pytest.approx(SAMPLE_RATE, abs=SAMPLE_RATE * 0.01)
    assert _loudness(found) == pytest.approx(FULL, rel=0.05)


@pytest.mark.parametrize(
    ("container", "codec"),
    [
        *[
            pytest.param("wav", f"pcm_{kind}", id=kind)
            for kind in ("u8", "s16le", "s24le", "s32le", "f32le", "f64le", "mulaw", "alaw")
        ],
        pytest.param("mov", "pcm_s16be", id="mov"),
        pytest.param("flac", "flac", id="flac"),
        pytest.param("mp3", "libmp3lame", id="mp3"),
        pytest.param("adts", "aac", id="raw-aac"),
        pytest.param("ipod", "aac", id="m4a"),
        pytest.param("ipod", "alac", id="m4a-alac"),
        pytest.param("ogg", "libopus", id="ogg-opus"),
        pytest.param("webm", "libopus", id="webm-opus"),
        pytest.param("matroska", "libopus", id="mkv-opus"),
    ],
)
def test_formats(container: str, codec: str) -> None:
    found = decode_audio(recording([TONE], container, codec), most_samples=MOST)

    assert len(found) == pytest.approx(SAMPLE_RATE, abs=0.06 * SAMPLE_RATE)
    assert _loudness(found) == pytest.approx(FULL, rel=0.08)
