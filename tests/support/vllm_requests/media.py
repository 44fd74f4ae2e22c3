"""Rows of images, videos and recordings in chats."""

from functools import partial
from typing import Any

from support.images import data_url, encode, plain_image
from support.vllm_requests.table import CHAT, QUESTION, Refused, Row, same, text_of, tokens

_MEDIA = "entrypoints/multimodal/openai/chat_completion/"
VISION = (f"{_MEDIA}test_vision.py",)
VIDEO = (f"{_MEDIA}test_video.py",)
AUDIO = (f"{_MEDIA}test_audio.py",)
EMBEDS = (f"{_MEDIA}test_chat_completion_with_image_embeds.py",)
SYSTEM = ("entrypoints/openai/chat_completion/test_chat_error.py",)

IMAGE = data_url(encode(plain_image()))
OTHER = data_url(encode(plain_image((30, 50), (10, 10, 200))))
TEXT_PART = {"type": "text", "text": QUESTION}
NO_IDS = "the gateway keeps images by their content, so a client need not name them"


def _part(url: object, **more: object) -> dict[str, Any]:
    return {"type": "image_url", "image_url": url, **more}


def _seen(*urls: object, **more: object) -> dict[str, Any]:
    parts = [_part({"url": url}) for url in urls]
    return {"messages": [{"role": "user", "content": [*parts, TEXT_PART]}], **more}


def _sent(*parts: object, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": [*parts, TEXT_PART]}]}


def _streams(answer: Any, other: Any) -> bool:
    return text_of(answer) == text_of(other)


def _longer(answer: Any, other: Any) -> bool:
    return bool(answer["usage"]["prompt_tokens"] > other["usage"]["prompt_tokens"])


_vision = partial(Row, VISION, CHAT)
_video = partial(Row, VIDEO, CHAT)
_audio = partial(Row, AUDIO, CHAT)

ROWS = (
    _vision("an image as a data URL", tokens(6), _seen(IMAGE)),
    _vision("an image is counted in the prompt", _longer, _seen(IMAGE), _seen()),
    _vision(
        "an image with `logprobs` and `top_logprobs: 5`",
        lambda answer: len(answer["choices"][0]["logprobs"]["content"]) == 6,
        _seen(IMAGE, logprobs=True, top_logprobs=5),
    ),
    _vision(
        "an image after the text",
        tokens(6),
        {"messages": [{"role": "user", "content": [TEXT_PART, _part({"url": IMAGE})]}]},
    ),
    _vision(
        "a stream about an image joins to the plain answer",
        _streams,
        _seen(IMAGE, stream=True),
        _seen(IMAGE),
    ),
    _vision(
        "a conversation that continues after an image",
        tokens(6),
        {
            "messages": [
                *_seen(IMAGE)["messages"],
                {"role": "assistant", "content": "A square"},
                {"role": "user", "content": "express it as json"},
            ]
        },
    ),
    _vision("two images", _longer, _seen(IMAGE, OTHER), _seen(IMAGE)),
    _vision("the same image twice gives the same answer", same, _seen(IMAGE), _seen(IMAGE)),
    _vision(
        "more images than the server takes",
        Refused("messages[0].content[2]", code="too_many_images"),
        _seen(*[IMAGE] * 40),
    ),
    _vision(
        "an image URL that is a text, not an object",
        same,
        _sent(_part(IMAGE)),
        _sent(_part({"url": IMAGE})),
        differs="other servers' clients send it so",
    ),
    _vision(
        "an image without a URL", Refused("messages[0].content[0].image_url.url"), _sent(_part({}))
    ),
    _vision(
        "an image with an id of the client's",
        Refused("messages[0].content[0].uuid", code="unknown_parameter"),
        _sent(_part({"url": IMAGE}, uuid="one")),
        differs=NO_IDS,
    ),
    _vision(
        "an id without an image that was seen before",
        Refused("messages[0].content[0].image_url.url"),
        _sent(_part({}, uuid="never")),
    ),
    _vision(
        "an unknown field beside the URL",
        Refused("messages[0].content[0].image_url.other_key", code="unknown_parameter"),
        _sent(_part({"url": IMAGE, "other_key": "one"})),
        differs="fields that would be without effect are refused, not ignored",
    ),
    _vision(
        "a file of the server",
        Refused("messages[0].content[0]", code="invalid_image_url"),
        _seen("file:///etc/hosts"),
    ),
    Row(
        SYSTEM,
        CHAT,
        "an image in a system message",
        tokens(6),
        _sent(_part({"url": IMAGE}), role="system"),
    ),
    Row(
        EMBEDS,
        CHAT,
        "an image as embeddings",
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "image_embeds", "image_embeds": "AAAA"}),
        differs="features come from the pod's own encoder only",
    ),
    _vision(
        "a part of unknown type",
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "smell", "smell": "AAAA"}),
    ),
    _video(
        "a video for a model without",
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "video_url", "video_url": {"url": IMAGE}}),
    ),
    _video(
        "a video URL that is a text, not an object",
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "video_url", "video_url": IMAGE}),
    ),
    _video(
        "`media_io_kwargs`",
        Refused("media_io_kwargs", code="unknown_parameter"),
        {"media_io_kwargs": {"video": {"num_frames": 4}}},
        differs="`video_url.num_frames` says it of each video",
    ),
    _audio(
        "a recording for a model without",
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
    ),
    _audio(
        "a recording's URL for a model without",
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,AAAA"}}),
    ),
    _audio(
        "a recording that is a text, not an object",
        Refused("messages[0].content[0].input_audio"),
        _sent({"type": "input_audio", "input_audio": "AAAA"}),
    ),
)
"""All of them."""
