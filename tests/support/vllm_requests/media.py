"""Rows of images, videos and recordings in chats."""

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


ROWS = (
    Row("an image as a data URL", VISION, CHAT, tokens(6), _seen(IMAGE)),
    Row("an image is counted in the prompt", VISION, CHAT, _longer, _seen(IMAGE), _seen()),
    Row(
        "an image with `logprobs` and `top_logprobs: 5`",
        VISION,
        CHAT,
        lambda answer: len(answer["choices"][0]["logprobs"]["content"]) == 6,
        _seen(IMAGE, logprobs=True, top_logprobs=5),
    ),
    Row(
        "an image after the text",
        VISION,
        CHAT,
        tokens(6),
        {"messages": [{"role": "user", "content": [TEXT_PART, _part({"url": IMAGE})]}]},
    ),
    Row(
        "a stream about an image joins to the plain answer",
        VISION,
        CHAT,
        _streams,
        _seen(IMAGE, stream=True),
        _seen(IMAGE),
    ),
    Row(
        "a conversation that continues after an image",
        VISION,
        CHAT,
        tokens(6),
        {
            "messages": [
                *_seen(IMAGE)["messages"],
                {"role": "assistant", "content": "A square"},
                {"role": "user", "content": "express it as json"},
            ]
        },
    ),
    Row("two images", VISION, CHAT, _longer, _seen(IMAGE, OTHER), _seen(IMAGE)),
    Row(
        "the same image twice gives the same answer", VISION, CHAT, same, _seen(IMAGE), _seen(IMAGE)
    ),
    Row(
        "more images than the server takes",
        VISION,
        CHAT,
        Refused("messages[0].content[2]", code="too_many_images"),
        _seen(*[IMAGE] * 40),
    ),
    Row(
        "an image URL that is a text, not an object",
        VISION,
        CHAT,
        same,
        _sent(_part(IMAGE)),
        _sent(_part({"url": IMAGE})),
        differs="other servers' clients send it so",
    ),
    Row(
        "an image without a URL",
        VISION,
        CHAT,
        Refused("messages[0].content[0].image_url.url"),
        _sent(_part({})),
    ),
    Row(
        "an image with an id of the client's",
        VISION,
        CHAT,
        Refused("messages[0].content[0].uuid", code="unknown_parameter"),
        _sent(_part({"url": IMAGE}, uuid="one")),
        differs=NO_IDS,
    ),
    Row(
        "an id without an image that was seen before",
        VISION,
        CHAT,
        Refused("messages[0].content[0].image_url.url"),
        _sent(_part({}, uuid="never")),
    ),
    Row(
        "an unknown field beside the URL",
        VISION,
        CHAT,
        Refused("messages[0].content[0].image_url.other_key", code="unknown_parameter"),
        _sent(_part({"url": IMAGE, "other_key": "one"})),
        differs="fields that would be without effect are refused, not ignored",
    ),
    Row(
        "base64 that is none",
        VISION,
        CHAT,
        Refused("messages[0].content[0]"),
        _seen("data:image/png;base64,!!!!"),
    ),
    Row(
        "a data URL of something else",
        VISION,
        CHAT,
        Refused("messages[0].content[0]"),
        _seen(data_url(b"not an image")),
    ),
    Row(
        "an image that was cut short",
        VISION,
        CHAT,
        Refused("messages[0].content[0]"),
        _seen(data_url(encode(plain_image((99, 99)), "JPEG")[:300], "image/jpeg")),
    ),
    Row(
        "a file of the server",
        VISION,
        CHAT,
        Refused("messages[0].content[0]", code="invalid_image_url"),
        _seen("file:///etc/hosts"),
    ),
    Row(
        "a private address",
        VISION,
        CHAT,
        Refused("messages[0].content[0]", code="invalid_image_url"),
        _seen("http://127.0.0.1/image.png"),
    ),
    Row(
        "an image in a system message",
        SYSTEM,
        CHAT,
        tokens(6),
        _sent(_part({"url": IMAGE}), role="system"),
    ),
    Row(
        "an image as embeddings",
        EMBEDS,
        CHAT,
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "image_embeds", "image_embeds": "AAAA"}),
        differs="features come from the pod's own encoder only",
    ),
    Row(
        "a part of unknown type",
        VISION,
        CHAT,
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "smell", "smell": "AAAA"}),
    ),
    Row(
        "a video for a model without",
        VIDEO,
        CHAT,
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "video_url", "video_url": {"url": IMAGE}}),
    ),
    Row(
        "a video URL that is a text, not an object",
        VIDEO,
        CHAT,
        Refused("messages[0].content[0].video_url"),
        _sent({"type": "video_url", "video_url": IMAGE}),
    ),
    Row(
        "`media_io_kwargs`",
        VIDEO,
        CHAT,
        Refused("media_io_kwargs", code="unknown_parameter"),
        {"media_io_kwargs": {"video": {"num_frames": 4}}},
        differs="`video_url.num_frames` says it of each video",
    ),
    Row(
        "a recording for a model without",
        AUDIO,
        CHAT,
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
    ),
    Row(
        "a recording's URL for a model without",
        AUDIO,
        CHAT,
        Refused("messages[0].content[0]", code="invalid_content_part"),
        _sent({"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,AAAA"}}),
    ),
    Row(
        "a recording that is a text, not an object",
        AUDIO,
        CHAT,
        Refused("messages[0].content[0].input_audio"),
        _sent({"type": "input_audio", "input_audio": "AAAA"}),
    ),
)
"""All of them."""
