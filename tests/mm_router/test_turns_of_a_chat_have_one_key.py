"""The key of a request is what comes first in its conversation and stays."""

from typing import Any

import pytest

from mm_router.affinity import Affinity, Basis, affinity_of

CAT = "data:image/png;base64,AAAA"
DOG = "data:image/png;base64,BBBB"


def text(words: str) -> dict[str, Any]:
    """Return a part of text."""
    return {"type": "text", "text": words}


def image(url: str) -> dict[str, Any]:
    """Return a part with an image."""
    return {"type": "image_url", "image_url": {"url": url}}


def chat(*contents: Any, system: str = "") -> dict[str, Any]:
    """Return a chat in which users and the assistant take turns, the user first."""
    roles = ("user", "assistant")
    turns = [{"role": roles[i % 2], "content": one} for i, one in enumerate(contents)]
    return {"messages": [{"role": "system", "content": system}] * bool(system) + turns}


def key_of(request: dict[str, Any]) -> Affinity:
    """Return the key of a request that has one."""
    affinity = affinity_of(request)
    assert affinity is not None
    return affinity


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            chat([image(CAT), text("What is it?")]),
            chat([image(CAT), text("What is it?")], "A cat.", "Which colour?"),
            id="image",
        ),
        pytest.param(
            chat([text("Is it a cat?"), image(CAT)]),
            chat([image(CAT), text("Describe it.")], system="Be short."),
            id="same-image-in-another-chat",
        ),
        pytest.param(
            chat([image(CAT)]), chat([image(CAT)], "A cat.", [image(DOG)]), id="another-image-later"
        ),
        pytest.param(
            chat("Hello", system="Be short."),
            chat("Hello", "Hi.", "How are you?", system="Be short."),
            id="text",
        ),
        pytest.param(
            chat([image(CAT)]),
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": CAT}]}]},
            id="image-of-a-response",
        ),
        pytest.param(
            {"prompt": "x" * 300}, {"prompt": "x" * 300 + " and more"}, id="prompt-that-grows"
        ),
        pytest.param({"prompt": ["one", "two"]}, {"prompt": "one"}, id="prompts"),
        pytest.param({"prompt": [7] * 300}, {"prompt": [[*[7] * 300, 1], [8]]}, id="token-ids"),
    ],
)
def test_requests_share_a_key(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Later turns, and other chats about the same image, belong to the same replica."""
    assert key_of(second) == key_of(first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(chat([image(CAT)]), chat([image(DOG)]), id="images"),
        pytest.param(chat("Hello"), chat("Good morning"), id="first-messages"),
        pytest.param(chat("Hello"), chat("Hello", system="Be short."), id="system-messages"),
        pytest.param({"prompt": "one"}, {"prompt": "two"}, id="prompts"),
        pytest.param({"prompt": [1, 2, 3]}, {"prompt": [1, 2, 4]}, id="token-ids"),
    ],
)
def test_requests_differ(first: dict[str, Any], second: dict[str, Any]) -> None:
    """What shares neither image nor prefix may go anywhere."""
    assert key_of(second) != key_of(first)


def test_the_basis_is_stated() -> None:
    """Media come before the prefix, and audio is one of them."""
    clip = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}

    assert key_of(chat([clip])).basis is Basis.MEDIA
    assert key_of(chat("Hello")).basis is Basis.PREFIX


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"messages": []}, id="no-messages"),
        pytest.param({"messages": ["text", 5, None]}, id="no-objects"),
        pytest.param({"messages": 7}, id="number"),
        pytest.param({"prompt": [["\ud800", 2.5]]}, id="no-token-ids"),
        pytest.param({"prompt": []}, id="no-prompts"),
        pytest.param({"input": ""}, id="empty"),
    ],
)
def test_requests_without_a_key(request_: dict[str, Any]) -> None:
    """What is malformed has no key and raises nothing: its gateway says what is wrong."""
    assert affinity_of(request_) is None


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"type": "image_url"}, id="no-url"),
        pytest.param({"type": "image_url", "image_url": 7}, id="number"),
        pytest.param({"type": "image_url", "image_url": {"url": None}}, id="null"),
        pytest.param({"type": "image_url", "image_url": {"url": "\ud800"}}, id="lone-surrogate"),
        pytest.param({"type": ["image_url"]}, id="list-as-type"),
        pytest.param("text", id="text"),
    ],
)
def test_damaged_parts_raise_nothing(part: Any) -> None:
    """A damaged part is skipped, or is a key like another."""
    affinity_of(chat([part]))
