"""What a request says about the frames of its video is done, or refused with the reason."""

import base64
import io

import pytest

from mm_runtime.gateway.media.frame_choice import FrameChoice
from mm_runtime.gateway.media.video import VideoLimits, decode_video, read_video
from mm_runtime.images.media import BadImageError
from support.cases import cases
from support.images import encode, plain_image
from support.videos import video

MOST = 8
ROOM = (9_000_000, 10_000, MOST)


@cases(
    "choice kept",
    {
        "as-many-as-fit": (FrameChoice(), [0, 3, 6, 9, 11, 14, 17, 20]),
        "two-a-second": (FrameChoice(fps=2), [0, 7, 13, 20]),
        "at-least-one": (FrameChoice(fps=0.1), [0]),
        "no-more-than-fit": (FrameChoice(fps=240), [0, 3, 6, 9, 11, 14, 17, 20]),
        "so-many": (FrameChoice(num_frames=3), [0, 10, 20]),
        "no-more-than-said": (FrameChoice(fps=2, max_frames=2), [0, 20]),
        "the-fewest-count": (FrameChoice(fps=2, num_frames=6), [0, 7, 13, 20]),
    },
)
def test_places(choice: FrameChoice, kept: list[int]) -> None:
    """Of 21 frames in two seconds, evenly."""
    assert kept == list(choice.places(21, 2.0, MOST))


def test_short_videos_are_kept() -> None:
    assert list(FrameChoice(num_frames=5).places(2, 1.0, MOST)) == [0, 1]


@pytest.mark.parametrize(("container", "codec"), [("mp4", "h264"), ("webm", "libvpx-vp9")])
def test_seconds_of_files(container: str, codec: str) -> None:
    """Two seconds of 25 frames each, at 2 and at 3 frames a second."""
    content = video(50, container, codec)
    found = [
        len(decode_video(content, VideoLimits(*ROOM, FrameChoice(fps=fps))).frames)
        for fps in (2, 3)
    ]
    assert found == [4, 6]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_seconds_of_animations(kind: str) -> None:
    """Twenty frames of 100 ms."""
    frames = [plain_image((20, 10), (at * 10,) * 3) for at in range(20)]
    buffer = io.BytesIO()
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], duration=100, loop=0)
    limits = VideoLimits(*ROOM, FrameChoice(fps=2))
    assert len(decode_video(buffer.getvalue(), limits).frames) == 4


def test_rows_of_frames_have_no_times() -> None:
    """`fps` means nothing there and is refused; a number of frames is honoured."""
    frames = [base64.b64encode(encode(plain_image((8, 8), (at, 0, 0)))).decode() for at in range(6)]
    row = "data:video/jpeg;base64," + ",".join(frames)
    with pytest.raises(BadImageError, match="`fps` cannot be honoured"):
        read_video(row, VideoLimits(*ROOM, FrameChoice(fps=2)))
    assert len(read_video(row, VideoLimits(*ROOM, FrameChoice(num_frames=2))).frames) == 2
