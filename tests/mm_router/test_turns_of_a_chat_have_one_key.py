"""The key of a request is what comes first in its conversation and stays."""

from typing import Any

from mm_router.reading import affinity_of
from support.cases import cases

CAT = "data:image/png;base64,AAAA"
DOG = "data:image/png;base64,BBBB"
CLIP = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def chat(*contents: Any, system: str = "") -> dict[str, Any]:
    roles = ("user", "assistant")
    turns = [{"role": roles[i % 2], "content": one} for i, one in enumerate(contents)]
    return {"messages": [{"role": "system", "content": system}] * bool(system) + turns}


def key_of(request: dict[str, Any]) -> bytes:
    affinity = affinity_of(request)
    assert affinity is not None
    return affinity


@cases(
    "first second",
    {
        "image": (
            chat([image(CAT), text("What is it?")]),
            chat([image(CAT), text("What is it?")], "A cat.", "Which colour?"),
        ),
        "same-image-in-another-chat": (
            chat([text("Is it a cat?"), image(CAT)]),
            chat([image(CAT), text("Describe it.")], system="Be short."),
        ),
        "another-image-later": (chat([image(CAT)]), chat([image(CAT)], "A cat.", [image(DOG)])),
        "text": (
            chat("Hello", system="Be short."),
            chat("Hello", "Hi.", "How are you?", system="Be short."),
        ),
        "image-of-a-response": (
            chat([image(CAT)]),
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": CAT}]}]},
        ),
        "recording": (chat([CLIP]), chat([CLIP], system="Be short.")),
        "prompt-that-grows": ({"prompt": "x" * 300}, {"prompt": "x" * 300 + " and more"}),
        "prompts": ({"prompt": ["one", "two"]}, {"prompt": "one"}),
    },
)
def test_requests_share_a_key(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert key_of(second) == key_of(first)


@cases(
    "first second",
    {
        "images": (chat([image(CAT)]), chat([image(DOG)])),
        "first-messages": (chat("Hello"), chat("Good morning")),
        "system-messages": (chat("Hello"), chat("Hello", system="Be short.")),
        "prompts": ({"prompt": "one"}, {"prompt": "two"}),
    },
)
def test_requests_differ(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert key_of(second) != key_of(first)


@cases(
    "request_",
    {
        "nothing": {},
        "no-messages": {"messages": []},
        "no-objects": {"messages": ["text", 5, None]},
        "number": {"messages": 7},
        "no-token-ids": {"prompt": [["\ud800", 2.5]]},
        "no-prompts": {"prompt": []},
        "empty": {"input": ""},
    },
)
def test_requests_without_a_key(request_: dict[str, Any]) -> None:
    assert affinity_of(request_) is None


@cases(
    "part",
    {
        "no-url": {"type": "image_url"},
        "number": {"type": "image_url", "image_url": 7},
        "null": {"type": "image_url", "image_url": {"url": None}},
        "lone-surrogate": {"type": "image_url", "image_url": {"url": "\ud800"}},
        "list-as-type": {"type": ["image_url"]},
        "text": "text",
    },
)
def test_damaged_parts_raise_nothing(part: Any) -> None:
    affinity_of(chat([part]))
