"""Tokens of an answer: what it states, else the estimate of its prompt and the text that came."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from mm_router.answer_tokens import AnswerTokens
from support.cases import cases

PROMPT = 40


def event(**content: Any) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"


def delta(**content: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": content}], usage=None)


@cases(
    "content expected",
    {
        "stated": (b'{"usage": {"prompt_tokens": 5, "total_tokens": 8}}', 8),
        "seconds": (b'{"usage": {"type": "duration", "seconds": 3}}', PROMPT + 12),
        "text": (b"eight at", PROMPT + 2),
        "other-json": (b"[]", PROMPT + 1),
        "malformed": (b'{"usage": {"total_tokens": "8"}}', PROMPT + 8),
        "long": (b" " * (1 << 21) + b"{}", PROMPT + (1 << 19) + 1),
    },
)
def test_complete_answers(content: bytes, expected: int) -> None:
    tokens = AnswerTokens(PROMPT)
    tokens.take_complete(content)
    assert tokens.used == expected


@cases(
    "events expected",
    {
        "nothing": ([], PROMPT),
        "comment": ([b": keep-alive\n\n"], PROMPT),
        "chat": ([delta(role="assistant"), delta(content="word")], PROMPT + 1),
        "short": ([delta(content="a"), delta(reasoning_content="b")], PROMPT + 2),
        "call": (
            [delta(tool_calls=[{"function": {"name": "f", "arguments": '{"a":1}'}}])],
            PROMPT + 2,
        ),
        "completion": ([event(choices=[{"text": "eight at"}])], PROMPT + 2),
        "response": (
            [
                event(type="response.output_text.delta", delta="eight at"),
                event(type="response.output_text.done", text="eight at"),
            ],
            PROMPT + 2,
        ),
        "response-with-usage": (
            [event(type="response.completed", response={"usage": {"total_tokens": 9}})],
            9,
        ),
        "usage": (
            [delta(content="a"), event(choices=[], usage={"total_tokens": 7}), b"data: [DONE]\n\n"],
            7,
        ),
        "usage-of-each": (
            [
                event(choices=[{"delta": {"content": "a"}}], usage={"total_tokens": 6}),
                event(choices=[{"delta": {"content": "b"}}], usage={"total_tokens": 7}),
            ],
            7,
        ),
        "parts": ([b"data: {", b'"x": 1}\n\n', b"data: 7\n\n"], PROMPT),
    },
)
def test_streams(events: list[bytes], expected: int) -> None:
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
