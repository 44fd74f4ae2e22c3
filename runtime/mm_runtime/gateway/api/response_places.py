"""PURE: errors about the chat that a response means, in the words of the request itself."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mm_edge.errors import InvalidRequestError

_MESSAGE = re.compile(r"messages\[(\d+)\]((?:\.\w+|\[\d+\])*)")
_RENAMED = (
    ("max_completion_tokens", "max_output_tokens"),
    ("response_format.json_schema", "text.format"),
    ("response_format", "text.format"),
    ("tool_choice.function", "tool_choice"),
    ("Your messages have", "Your input has"),
    ("the messages", "the input"),
    ("`messages`", "`input`"),
)
_TOOL = re.compile(r"tools\[(\d+)\]\.function")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message of the chat, its content, and the thought before it are in the request."""

    name: str
    content: str
    thought: str = ""


def rename(error: InvalidRequestError, places: Sequence[Place]) -> None:
    """Let an error about a chat name parts of the request; `places`: of the messages, in order."""

    def placed(found: re.Match[str]) -> str:
        at, inside = int(found[1]), found[2]
        return _placed(places[at], inside) if at < len(places) else "input"

    def written(text: str) -> str:
        text = _TOOL.sub(r"tools[\1]", _MESSAGE.sub(placed, text))
        for name, other in _RENAMED:
            text = text.replace(name, other)
        return text

    error.message = written(error.message)
    if error.param is not None:
        error.param = "input" if error.param == "messages" else written(error.param)


def _placed(place: Place, inside: str) -> str:
    if inside.startswith(".content"):
        # An image is a part with the address itself.
        return place.content + inside.removeprefix(".content").replace(
            ".image_url.detail", ".detail"
        ).replace(".image_url.url", ".image_url")
    known = {".tool_call_id": f"{place.name}.call_id", ".reasoning": place.thought}
    return known.get(inside, place.name)
