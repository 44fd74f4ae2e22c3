"""Warm-up requests at the limits of what a model's pods take: no user's request is the first.

Engines, kernels and memory pools are chosen by shapes, and the largest are those that fail: so each
is sent once before a pod is ready. Images of one colour suffice, since the answers are not read;
no two of a request are alike, or they would be encoded once.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

from PIL import Image

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.media.video import FRAME_ROW
from mm_runtime.gateway.preparation import AnyRequest, Preparation
from mm_runtime.gateway.warmup.own_requests import PromptRequest, encoded, image_part, question
from mm_runtime.serving.preprocess.processors.prepared import Size

_WORD = "a "
_QUESTION = "What is in the image?"
_LEAST_SIDE = 28
"""One block of patches of Qwen2-VL; other families make any image as large as they need it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One request, and what it is for."""

    name: str
    request: AnyRequest


def probes(preparation: Preparation, *, most_pixels: int) -> Iterator[Probe]:
    """Yield the requests of a model, each made when it is wanted: images take memory."""
    if preparation.accepts_audio:  # every recording takes the encoder's full window
        return
    if preparation.chats and preparation.model.max_images:
        for name, sizes in _image_sizes(preparation, isqrt(most_pixels)).items():
            yield Probe(f"{name} ({_summary(sizes)})", _with_images(preparation, sizes))
        if video := _longest_video(preparation, isqrt(most_pixels)):
            yield Probe(f"the longest video ({_summary(video)})", _with_video(preparation, video))
    words = _most_words(preparation)
    longest = _with_words(preparation, words)
    yield Probe(f"the longest prompt ({preparation.text_tokens(longest)} tokens)", longest)


def _image_sizes(preparation: Preparation, most_side: int) -> dict[str, Sequence[Size]]:
    """Return the images of each request: the question that follows has a small one."""
    by_features = sorted(
        _sizes(most_side), key=lambda one: (preparation.layout.features([one]), -one[0])
    )
    fitting = [size for size in by_features if _fits(preparation, [size])]
    if not fitting:
        return {}
    found: dict[str, Sequence[Size]] = {}
    if preparation.layout.features([fitting[0]]) < preparation.layout.features([fitting[-1]]):
        found["the largest image"] = [fitting[-1]]
    for count in range(preparation.model.max_images, 1, -1):
        sizes = [size for size in by_features if _fits(preparation, [size] * count)]
        if sizes:
            return found | {"the most images": [sizes[-1]] * count}
    return found


def _longest_video(preparation: Preparation, most_side: int) -> Sequence[Size]:
    """Return the frames of the video that has the most tokens; none where none is taken."""
    frames = preparation.model.max_video_frames
    while frames:
        try:
            size = _largest_frame(preparation, frames, most_side)
        except InvalidRequestError:  # a family without videos, whatever its plan says
            return []
        if size is not None:
            return [size] * frames
        frames //= 2
    return []


def _largest_frame(preparation: Preparation, frames: int, most_side: int) -> Size | None:
    """Return the size with the most tokens that fit, the smallest of those; None: none does."""
    blank = _with_video(preparation, [(1, 1)] * frames)
    left = _rows_left(preparation, blank)
    rows = {size: preparation.layout.video_rows(frames, size) for size in _sizes(most_side)}
    fitting = (size for size in rows if rows[size] <= left)
    return max(fitting, key=lambda one: (rows[one], -one[0]), default=None)


def _sizes(most_side: int) -> Iterator[Size]:
    """Yield squares from the least to the largest.

    Whatever families make of shapes, some squares have the fewest features, and some the most.
    """
    side = _LEAST_SIDE
    while side < most_side:
        yield side, side
        side *= 2
    yield most_side, most_side


def _fits(preparation: Preparation, sizes: Sequence[Size]) -> bool:
    blank = _with_images(preparation, [(1, 1)] * len(sizes))
    return preparation.layout.rows(sizes) <= _rows_left(preparation, blank)


def _rows_left(preparation: Preparation, blank: PromptRequest) -> int:
    left = _most_tokens(preparation) - preparation.text_tokens(blank)
    most = preparation.model.max_features
    return left if most is None else min(left, most)


def _most_tokens(preparation: Preparation) -> int:
    """Return the tokens of the longest prompt that an answer of one token can follow."""
    limits = preparation.model.limits
    if limits.decoder_tokens is not None:  # the answer has a sequence of its own
        return limits.max_input_len
    return min(limits.max_input_len, limits.max_seq_len - 1)


def _most_words(preparation: Preparation) -> int:
    """Return the most words of a prompt within its limit; every word is a token or more."""
    limit = _most_tokens(preparation)

    def tokens(words: int) -> int:
        return preparation.text_tokens(_with_words(preparation, words))

    return max(1, bisect_right(range(limit + 1), limit, lo=1, key=tokens) - 1)


def _with_words(preparation: Preparation, words: int) -> PromptRequest:
    return question(preparation, (_WORD * words).strip(), max_tokens=1)


def _with_images(preparation: Preparation, sizes: Sequence[Size]) -> PromptRequest:
    images = [image_part(_blank(size, shade=number)) for number, size in enumerate(sizes)]
    return question(preparation, _QUESTION, *images, max_tokens=1)


def _with_video(preparation: Preparation, sizes: Sequence[Size]) -> PromptRequest:
    frames = ",".join(encoded(_blank(size, shade=at), "JPEG") for at, size in enumerate(sizes))
    video = {"type": "video_url", "video_url": {"url": f"data:{FRAME_ROW};base64,{frames}"}}
    return question(preparation, _QUESTION, video, max_tokens=1)


def _blank(size: Size, *, shade: int) -> Image.Image:
    return Image.new("RGB", (size[1], size[0]), (220, 20, shade % 256))


def _summary(sizes: Sequence[Size]) -> str:
    height, width = sizes[0]
    each = f"{width} x {height} pixels"
    return each if len(sizes) == 1 else f"{len(sizes)} of {each}"
