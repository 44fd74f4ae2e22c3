"""`data:` URLs of images, videos and recordings: what a browser reads is read, and nothing else."""

import base64
from urllib.parse import quote_from_bytes

import numpy as np
import pytest

from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.gateway.media.recordings import AudioReference, checked
from mm_runtime.gateway.media.video import VideoLimits, read_video
from mm_runtime.images.data_urls import decode_data_url
from mm_runtime.images.media import BadImageError, decode
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.media import MediaLimits, image_from_url
from support.image_files import photograph
from support.images import encode
from support.videos import video

LIMIT = 1 << 20
IMAGE = encode(photograph())
TEXT = base64.b64encode(IMAGE).decode()
ESCAPED = TEXT.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")

READ = {
    "usual": f"data:image/png;base64,{TEXT}",
    "without-padding": f"data:image/png;base64,{TEXT.rstrip('=')}",
    "base64-in-capitals": f"data:image/png;BASE64,{TEXT}",
    "everything-in-capitals": f"DATA:IMAGE/PNG;BASE64,{TEXT}",
    "blank-before-base64": f"data:image/png; base64,{TEXT}",
    "blank-before-the-comma": f"data:image/png;base64 ,{TEXT}",
    "a-parameter": f"data:image/png;charset=utf-8;base64,{TEXT}",
    "no-media-type": f"data:;base64,{TEXT}",
    "another-media-type": f"data:image/jpeg;base64,{TEXT}",
    "unknown-media-type": f"data:application/octet-stream;base64,{TEXT}",
    "of-a-text": f"data:text/plain;base64,{TEXT}",
    "of-svg-by-its-name": f"data:image/svg+xml;base64,{TEXT}",
    "escapes": f"data:image/png;base64,{ESCAPED}",
    "lines": f"data:image/png;base64,\n{TEXT[:40]}\r\n{TEXT[40:]}\n",
    "blanks": f"data:image/png;base64, {TEXT[:41]} {TEXT[41:]}",
    "escaped-lines": f"data:image/png;base64,{TEXT[:40]}%0A{TEXT[40:]}",
    "a-fragment": f"data:image/png;base64,{TEXT}#page",
    "blanks-around": f" data:image/png;base64,{TEXT}\n",
    "a-line-in-its-head": f"data:image/png;\nbase64,{TEXT}",
    "no-base64": f"data:image/png,{quote_from_bytes(IMAGE)}",
    "nothing-but-bytes": f"data:,{quote_from_bytes(IMAGE)}",
}

REFUSED = {
    "url-safe-alphabet": (
        "data:image/png;base64,ab-_",
        r"'-' is of the URL-safe alphabet: write \+",
    ),
    "cut-in-a-group": ("data:image/png;base64,abcde", "it is cut: 5 characters"),
    "padding-inside": ("data:image/png;base64,ab=c", "padding at character 2"),
    "padding-too-long": ("data:image/png;base64,abcd====", "padding at character 4"),
    "a-foreign-character": ("data:image/png;base64,ab*d", r"'\*' at character 2"),
    "no-comma": ("data:image/png;base64", "no comma between media type and data"),
    "empty": ("data:image/png;base64,", r"the image is empty \(0 bytes\)"),
    "base64-not-last": (f"data:image/png;base64;a=b,{TEXT}", "not marked as base64"),
    "base64-left-out": (f"data:image/png,{TEXT}", "not marked as base64"),
    "too-long": (f"data:image/png;base64,{'A' * 2_000_000}", "1500000 bytes, more than the limit"),
    "too-long-in-bytes": (f"data:,{'%41' * 1_100_000}", "1100000 bytes, more than the limit"),
    "svg": ("data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG: draw it as PNG"),
    "a-page": ("data:text/html,<!doctype html><p>", "they look like an HTML page"),
}


@pytest.mark.parametrize("name", READ)
def test_what_browsers_read_is_read(name: str) -> None:
    """By the gateway and by Triton's own models alike."""
    content = decode_data_url(READ[name], max_bytes=LIMIT)
    assert content == IMAGE

    image = image_from_url(READ[name], MediaLimits(LIMIT, LIMIT))
    assert np.array_equal(np.asarray(image), np.asarray(photograph()))


@pytest.mark.parametrize("name", REFUSED)
def test_what_browsers_do_not_read_is_refused(name: str) -> None:
    url, words = REFUSED[name]
    with pytest.raises(BadImageError, match=words):
        decode(decode_data_url(url, max_bytes=LIMIT), max_pixels=LIMIT)
    with pytest.raises(RequestError, match=words):
        image_from_url(url, MediaLimits(LIMIT, LIMIT))


@pytest.mark.parametrize("name", READ)
def test_recordings_are_read_alike(name: str) -> None:
    found = checked(AudioReference(READ[name], "audio"), READ[name], None, max_bytes=LIMIT)
    assert found == IMAGE


def test_recordings_are_refused_alike() -> None:
    url = f"data:audio/wav;base64,{'A' * 2_000_000}"
    with pytest.raises(BadRecordingError, match="the recording has 1500000 bytes"):
        checked(AudioReference(url, "audio"), url, None, max_bytes=LIMIT)


@pytest.mark.parametrize(
    "head", ["data:image/gif;base64,", "data:video/mp4; BASE64,", "data:;base64,"]
)
def test_videos_are_read_alike(head: str) -> None:
    url = head + base64.b64encode(video(3)).decode().rstrip("=")
    assert len(read_video(url, VideoLimits(LIMIT, LIMIT, 8)).frames) == 3


def test_rows_of_frames_are_read_alike() -> None:
    frames = ",".join([ESCAPED, TEXT.rstrip("="), TEXT])
    url = f"data:Video/JPEG;charset=x; BASE64,{frames}"
    assert len(read_video(url, VideoLimits(LIMIT, LIMIT, 8)).frames) == 3
