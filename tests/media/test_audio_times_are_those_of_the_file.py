"""What a recording's times leave out is silence, so what is said later keeps its time."""

import io
from collections.abc import Callable
from fractions import Fraction
from typing import cast

import av
import numpy as np
import pytest

from mm_runtime.gateway.media.audio import decode_audio
from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE
from support.audio_channels import RATE, recording, tone
from support.video_files import RED, plain

SECONDS = 3
MOST = 30 * SAMPLE_RATE
FORMATS = [("mp4", "aac"), ("matroska", "libopus"), ("webm", "libopus"), ("ogg", "libopus")]

Shift = Callable[[float], float | None]


def _as_it_is(second: float) -> float:
    return second


def _hole(second: float) -> float | None:
    return None if 1 <= second < 2 else second


def _later(second: float) -> float:
    return second + (second >= 1)


def _late(second: float) -> float:
    return second + 2


def _shifted(
    container: str,
    codec: str,
    shift: Shift,
    *,
    images: bool = False,
    options: dict[str, str] | None = None,
) -> bytes:
    """Return a tone of some seconds whose packets lie elsewhere; those at None are left out."""
    file = io.BytesIO()
    with av.open(file, "w", format=container, options=options or {}) as output:
        if images:
            video = cast("av.VideoStream", output.add_stream("mpeg4", rate=25))
            video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio = cast("av.AudioStream", output.add_stream(codec, rate=RATE, layout="mono"))
        for _ in range(images * 50):
            frame = av.VideoFrame.from_ndarray(plain(RED), format="rgb24")
            output.mux(video.encode(frame))
        spoken = av.AudioFrame.from_ndarray(tone(SECONDS)[None], "fltp", "mono")
        spoken.rate, spoken.pts, spoken.time_base = RATE, 0, Fraction(1, RATE)
        for packet in [*audio.encode(spoken), *audio.encode(None)]:
            assert packet.pts is not None
            moved = shift(float(packet.pts * packet.time_base))
            if moved is not None:
                packet.pts = packet.dts = round(moved / packet.time_base)
                output.mux(packet)
    return file.getvalue()


def _audible(content: bytes) -> list[bool]:
    """Return whether there is a tone in the middle of each second."""
    found = decode_audio(content, most_samples=MOST)
    seconds = np.pad(found, (0, -len(found) % SAMPLE_RATE)).reshape(-1, SAMPLE_RATE)
    middle = np.abs(seconds[:, SAMPLE_RATE // 3 : SAMPLE_RATE // 2]).max(axis=1) > 0.1
    return list(middle[: round(len(found) / SAMPLE_RATE)])


@pytest.mark.parametrize(("container", "codec"), FORMATS)
@pytest.mark.parametrize(
    ("shift", "audible"),
    [(_hole, [True, False, True]), (_later, [True, False, True, True])],
    ids=["packets-are-gone", "times-jump"],
)
def test_a_gap(container: str, codec: str, shift: Shift, audible: list[bool]) -> None:
    assert _audible(_shifted(container, codec, shift)) == audible


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_audio_that_begins_after_the_image(container: str) -> None:
    """Is silent until then; where there is nothing else it begins with the file, as in players."""
    assert _audible(_shifted(container, "aac", _late, images=True)) == [False] * 2 + [True] * 3
    assert _audible(_shifted(container, "aac", _late)) == [True] * 3


def test_a_gap_of_years() -> None:
    """Costs nothing: it is longer than the model reads."""
    content = _shifted("matroska", "libopus", lambda second: second + (second >= 1) * 1e6)

    with pytest.raises(BadRecordingError, match="longer than 30 seconds"):
        _audible(content)


def test_times_that_go_back() -> None:
    fragments = {
        "movflags": "frag_keyframe+empty_moov+default_base_moof",
        "frag_duration": "500000",
    }
    content = _shifted("mp4", "aac", lambda second: second, options=fragments)
    begins = [at - 4 for at in range(len(content)) if content[at : at + 4] == b"moof"]

    with pytest.raises(BadRecordingError, match=r"go back from 2\.\d+ to 1\.\d+ seconds"):
        _audible(content[: begins[4]] + content[begins[2] :])


def test_a_chain_of_oggs() -> None:
    """Each begins at zero, and players play one after the other."""
    links = [
        _shifted("ogg", "libopus", _as_it_is, options={"serial_offset": serial})
        for serial in ("0", "7")
    ]

    assert _audible(b"".join(links)) == [True] * 2 * SECONDS


def test_a_rate_that_changes() -> None:
    """Raw AAC of two programs, joined."""
    content = recording([tone()], "adts", "aac")
    slower = recording([tone(rate=24_000)], "adts", "aac", rate=24_000)

    assert _audible(content + slower) == [True] * 2
