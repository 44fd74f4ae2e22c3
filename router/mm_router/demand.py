"""PURE: a parsed request -> the work that it is, in tokens of text.

Prompt, features of images, videos and recordings, and the longest answer. The router has neither
tokenizer nor decoder: it estimates by lengths and by headers of images, and is as wrong for one
replica as for the next. Whatever a client wrote has a weight above 0.

Sizes are read of the formats that OpenAI's clients send: PNG, JPEG, GIF, WebP. What is none of
them, damaged or behind an address has none here, and a wrong header makes a wrong estimate only.
"""

import binascii
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_SHORT_CHARACTERS = 1024
"""Characters of base64: sizes of PNG, GIF and WebP are in the first 30 bytes."""

_JPEG_CHARACTERS = 96 * 1024
"""A JPEG's size follows its metadata, a segment of which has up to 64 KiB. Decoded in 0.2 ms."""

_MOST_PIXELS = 1 << 30
"""Limit of what is believed: a header may say anything."""

_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Markers of a JPEG's frame header, which has its size."""

_JPEG_START, _JPEG_SCAN = b"\xff\xd8", 0xDA


def pixels_of(url: str) -> int:
    """Return width times height of the image of a URL; 0: not known."""
    if url[:5].lower() != "data:":
        return 0
    start = url.find(",", 0, _SHORT_CHARACTERS) + 1
    if not start or not url[:start].rstrip(", ").lower().endswith(";base64"):
        return 0
    head = _decoded(url[start : start + _SHORT_CHARACTERS])
    if head.startswith(_JPEG_START):
        head = _decoded(url[start : start + _JPEG_CHARACTERS])
    try:
        width, height = _size(head)
    except (struct.error, IndexError):
        return 0
    return min(width * height, _MOST_PIXELS)


def _decoded(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text[: len(text) // 4 * 4])
    except ValueError:
        return b""


def _size(head: bytes) -> tuple[int, int]:
    """Return width and height, 0 of what is no image."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return struct.unpack_from(">II", head, 16)
    if head[:6] in {b"GIF87a", b"GIF89a"}:
        return struct.unpack_from("<HH", head, 6)
    if head.startswith(_JPEG_START):
        return _jpeg_size(head)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp_size(head)
    return 0, 0


def _jpeg_size(head: bytes) -> tuple[int, int]:
    at = len(_JPEG_START)
    while head[at] == 0xFF:  # noqa: PLR2004  # each segment begins with it
        marker = head[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        if marker == _JPEG_SCAN:
            break
        # A filler byte, or a segment with its length.
        at += 1 if marker == 0xFF else 2 + max(2, struct.unpack_from(">H", head, at + 2)[0])  # noqa: PLR2004
    return 0, 0


def _webp_size(head: bytes) -> tuple[int, int]:
    match head[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", head, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return (
                int.from_bytes(_bytes(head, 24), "little") + 1,
                int.from_bytes(_bytes(head, 27), "little") + 1,
            )
    return 0, 0


def _bytes(head: bytes, at: int) -> bytes:
    return struct.unpack_from("3s", head, at)[0]  # type: ignore[no-any-return]


REQUEST_TOKENS = 32
"""Tokens of any request, whatever is in it: it is read, scheduled and answered."""

BYTES_PER_TOKEN = 4
"""In UTF-8: English has four characters a token, Chinese about one of three bytes."""

PIXELS_PER_TOKEN = 784
"""A patch of 28 x 28, as Qwen2-VL's tower has it."""

LEAST_IMAGE_TOKENS = 256
"""A small image is scaled up to the tower's own size: 16 x 16 patches are the fewest usual."""

IMAGE_TOKENS = 576
"""Tokens of an image whose size is not known, and of a frame of a video: LLaVA-1.5's 24 x 24
patches."""

MOST_IMAGE_TOKENS = 16_384
"""Bound for a model whose plan is not known: the most that Qwen2-VL's processor makes of an
image."""

VIDEO_IMAGES = 8
"""Frames of a video, which the router does not open."""

AUDIO_BYTES_PER_TOKEN = 1024
"""25 tokens a second (Qwen2-Audio) of 16,000 samples of two bytes are 1,280 bytes a token; of MP3
at 128 kbit/s they are 640."""

AUDIO_TOKENS = 750
"""Tokens of a recording behind an address: half a minute."""

ANSWER_TOKENS = 512
"""That an answer without a stated length is expected to have."""

MOST_ANSWER_TOKENS = 32_768
"""That are believed where no plan is known."""

MOST_ANSWERS = 128
"""In one request; OpenAI's limit of `n`."""

_HEADERS = 64
"""Images of one request whose headers are read, in up to 0.2 ms each."""

_ANSWER_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""The first that a request has wins, as at the gateway."""


@dataclass(frozen=True, slots=True, order=True)
class ModelSize:
    """Most tokens of prompt and answer, and of an image, as a plan says; 0: not known.

    `image_price`: tokens of text that cost as much as a token of an image, as its pods measured.
    `kept_price`: what of it a replica does not do again that knows the image.
    """

    sequence: int = 0
    image: int = 0
    image_price: float = 1.0
    kept_price: float = 0.0


UNPLANNED = ModelSize()
"""Size of a model whose plan is not known."""


@dataclass(frozen=True, slots=True)
class Work:
    """Tokens of one request at a replica, before the first of its answer and after.

    `kept`: of the prompt, what a replica does not do again that knows the images.
    """

    prompt: int
    answer: int = 0
    kept: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt + self.answer


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request holds, text and audio in estimated tokens.

    `images`: pixels of each; 0: not known. `longest`: tokens of an answer; None: the request says
    none. `prompts`: that text and answers are of, in equal parts.
    """

    text: int = 0
    images: tuple[int, ...] = ()
    videos: int = 0
    audio: int = 0
    answers: int = 1
    longest: int | None = None
    prompts: int = 1

    def work(self, size: ModelSize) -> Work:
        """Return the work; a longer prompt than fits is refused, not read."""
        images = sum(_image_tokens(pixels, size) for pixels in self.images)
        images += self.videos * VIDEO_IMAGES * _image_tokens(0, size)
        prompt, most = REQUEST_TOKENS + self.text + images + self.audio, MOST_ANSWER_TOKENS
        if size.sequence:
            prompt = min(prompt, REQUEST_TOKENS + self.prompts * size.sequence)
            images = min(images, prompt)
            most = size.sequence - prompt // self.prompts
        expected = self.longest if self.longest is not None else ANSWER_TOKENS
        return Work(
            prompt + int(images * (size.image_price - 1)),
            self.answers * max(1, min(expected, most)),
            int(images * size.kept_price),
        )


def demand_of(request: dict[str, Any]) -> Demand:
    """Return what a parsed JSON request holds; what is malformed the gateway refuses."""
    found = _Found()
    _walk(request, found)
    text = math.ceil(found.text_bytes / BYTES_PER_TOKEN)
    answers = _count(request.get("n")) or 1
    prompts = min(_prompts(request.get("prompt")), MOST_ANSWERS)
    limits = (_count(request.get(name)) for name in _ANSWER_LIMITS)
    return Demand(
        text=text,
        images=tuple(found.images),
        videos=found.videos,
        audio=found.audio,
        answers=min(answers * prompts, MOST_ANSWERS),
        longest=next((limit for limit in limits if limit), None),
        prompts=prompts,
    )


def audio_tokens(file_bytes: int) -> int:
    return math.ceil(file_bytes / AUDIO_BYTES_PER_TOKEN)


class _Found:
    """What a request was found to hold so far."""

    def __init__(self) -> None:
        self.text_bytes = self.videos = self.audio = 0
        self.images: list[int] = []

    def image(self, url: str) -> None:
        self.images.append(pixels_of(url) if len(self.images) < _HEADERS else 0)

    def video(self, _url: str) -> None:
        self.videos += 1

    def recording(self, content: str) -> None:
        # Base64 has four characters for three bytes.
        is_address = content[:4].lower() == "http"
        self.audio += AUDIO_TOKENS if is_address else audio_tokens(len(content) * 3 // 4)


_Take = Callable[[_Found, str], None]

MEDIA: dict[str, tuple[str, str, _Take]] = {
    "image_url": ("image_url", "url", _Found.image),
    "input_image": ("image_url", "url", _Found.image),
    "video_url": ("video_url", "url", _Found.video),
    "audio_url": ("audio_url", "url", _Found.recording),
    "input_audio": ("input_audio", "data", _Found.recording),
}
"""Type of a part -> the field of its file, the file's own field, and what it counts as."""


def _walk(request: dict[str, Any], found: _Found) -> None:
    """Count every text of a request but for files: tools and forms are part of prompts, too.

    Exact types, which are all that JSON has, and no call for a text: the most elements that a body
    may have (16,384) are counted in 10 ms, a quarter of what patterns of `match` take.
    """
    left: list[Any] = [request]
    length = 0
    while left:
        items = left.pop()
        if type(items) is dict:
            media = MEDIA.get(kind) if type(kind := items.get("type")) is str else None
            if media is not None:
                field, inner, take = media
                file = items.get(field)
                take(found, _text(file.get(inner) if type(file) is dict else file))
                continue
            items = items.values()
        for item in items:
            kind = type(item)
            if kind is str:
                length += len(item) if item.isascii() else len(item.encode(errors="replace"))
            elif kind is dict or kind is list:
                left.append(item)
    found.text_bytes += length


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _prompts(prompt: object) -> int:
    return max(1, len(prompt)) if isinstance(prompt, list) else 1


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _image_tokens(pixels: int, size: ModelSize) -> int:
    most = size.image or MOST_IMAGE_TOKENS
    if not pixels:
        return min(most, IMAGE_TOKENS)
    return min(most, max(LEAST_IMAGE_TOKENS, math.ceil(pixels / PIXELS_PER_TOKEN)))
