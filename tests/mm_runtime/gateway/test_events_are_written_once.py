"""Events of a stream are written around their text, and are the JSON they would be otherwise."""

import json

import pytest

from mm_edge.json_text import encode
from mm_runtime.gateway.api.json_text import TextFrame


def _event(text: str) -> dict[str, object]:
    return {"id": "\0", "choices": [{"delta": {"content": text}, "text": None}], "usage": None}


@pytest.mark.parametrize(
    "text",
    [" red", 'a "quoted" \\ word', "two\nlines\u2028", "é 日本 😀", "\0", "\ud83d", '","x":"'],
    ids=["word", "quotes", "lines", "characters", "mark", "surrogate", "json"],
)
def test_a_frame_writes_what_the_complete_object_is(text: str) -> None:
    """Whatever the text, the bytes are those of the object, and they are read back as it."""
    written = TextFrame(_event).write(text)
    assert encode(_event(text)) == written
    assert _event(text) == json.loads(written)
