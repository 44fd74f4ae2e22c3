"""Tokens of an answer: what it states, else the estimate of its prompt and the text that came."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm_router.answer_tokens import AnswerTokens

PROMPT = 40


def event(**content: Any) -> bytes:
    """Return one event of a stream."""
    return b"data: " + orjson.dumps(content) + b"\n\n"


def delta(**content: Any) -> bytes:
    """Return a chunk of a chat."""
    return event(choices=[{"index": 0, "delta": content}], usage=None)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b'{"usage": {"prompt_tokens": 5, "total_tokens": 8}}', 8, id="stated"),
        pytest.param(b'{"usage": {"type": "duration", "seconds": 3}}', PROMPT + 12, id="seconds"),
        pytest.param(b"eight at", PROMPT + 2, id="text"),
        pytest.param(b"[]", PROMPT + 1, id="other-json"),
        pytest.param(b'{"usage": {"total_tokens": "8"}}', PROMPT + 8, id="malformed"),
        pytest.param(b" " * (1 << 21) + b"{}", PROMPT + (1 << 19) + 1, id="long"),
    ],
)
def test_complete_answers(content: bytes, expected: int) -> None:
    """A usage wins; without one the length of the answer counts."""
    tokens = AnswerTokens(PROMPT)
    tokens.take_complete(content)
    assert tokens.used == expected


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([], PROMPT, id="nothing"),
        pytest.param([b": keep-alive\n\n"], PROMPT, id="comment"),
        pytest.param([delta(role="assistant"), delta(content="word")], PROMPT + 1, id="chat"),
        pytest.param([delta(content="a"), delta(reasoning_content="b")], PROMPT + 2, id="short"),
        pytest.param(
            [delta(tool_calls=[{"function": {"name": "f", "arguments": '{"a":1}'}}])],
            PROMPT + 2,
            id="call",
        ),
        pytest.param([event(choices=[{"text": "eight at"}])], PROMPT + 2, id="completion"),
        pytest.param(
            [
                event(type="response.output_text.delta", delta="eight at"),
                event(type="response.output_text.done", text="eight at"),
            ],
            PROMPT + 2,
            id="response",
        ),
        pytest.param(
            [event(type="response.completed", response={"usage": {"total_tokens": 9}})],
            9,
            id="response-with-usage",
        ),
        pytest.param(
            [delta(content="a"), event(choices=[], usage={"total_tokens": 7}), b"data: [DONE]\n\n"],
            7,
            id="usage",
        ),
        pytest.param(
            [
                event(choices=[{"delta": {"content": "a"}}], usage={"total_tokens": 6}),
                event(choices=[{"delta": {"content": "b"}}], usage={"total_tokens": 7}),
            ],
            7,
            id="usage-of-each",
        ),
        pytest.param([b"data: {", b'"x": 1}\n\n', b"data: 7\n\n"], PROMPT, id="parts"),
    ],
)
def test_streams(events: list[bytes], expected: int) -> None:
    """Joined or one by one: responses are joined where a client lags."""
    apart, joined = AnswerTokens(PROMPT), AnswerTokens(PROMPT)
    for one in events:
        apart.take_events(one)
    joined.take_events(b"".join(events))

    assert apart.used == expected
    if b'"x"' not in b"".join(events):
        assert joined.used == expected


@given(
    st.recursive(
        st.none() | st.integers(-(2**60), 2**60) | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "usage", "response", "text", "tool_calls", "function"]
                ),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_any_answer_is_counted(content: Any) -> None:
    """What no gateway sends costs no request its answer."""
    tokens = AnswerTokens(PROMPT)
    tokens.take_events(b"data: " + orjson.dumps(content, default=str) + b"\n\n")
    assert tokens.used >= 0
