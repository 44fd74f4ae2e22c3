"""Scores of tokens are passed on with the text of their tokens, and cut off with it."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from mm_runtime.gateway.api.scores import HeldScores, TokenScore, of_chat, of_text
from mm_runtime.gateway.api.stops import StopCutter
from mm_runtime.gateway.backends.merged import merged
from support.cases import cases
from support.eventually import eventually_async


def _score(text: str, log_prob: float = -0.5) -> TokenScore:
    return TokenScore(text, text.encode(), log_prob)


def _shown(words: list[str], *stops: str) -> list[tuple[str, str]]:
    """Return each piece of text with the tokens whose scores came with it."""
    cutter, held = StopCutter(stops), HeldScores()
    found = []
    for word in words:
        shown = cutter.push(word)
        scores = held.push(word, [_score(word)], shown)
        found.append((shown, "".join(score.text for score in scores)))
        if cutter.stopped:
            return found
    return [*found, (cutter.flush(), "".join(score.text for score in held.flush()))]


@cases(
    "words stops expected",
    {
        "no-stop": (["a", " red"], (), [("a", "a"), (" red", " red"), ("", "")]),
        "held-back": (
            ["a", " re", "d", " b"],
            (" red car",),
            [("a", "a"), ("", ""), ("", ""), (" red b", " red b"), ("", "")],
        ),
        "cut-off": (["a", " re", "d"], (" red",), [("a", "a"), ("", ""), ("", "")]),
        "in-its-midst": (["a re", "d"], ("red",), [("a ", "a re"), ("", "")]),
        "without-text": (["a", ""], (), [("a", "a"), ("", ""), ("", "")]),
    },
)
def test_held_scores(
    words: list[str], stops: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    assert expected == _shown(words, *stops)


REPLACED = "\N{REPLACEMENT CHARACTER}"


def _part(byte: int) -> TokenScore:
    return TokenScore(REPLACED, bytes([byte]), -0.5)


@cases(
    "tokens expected",
    {
        "plain": ([("a", _score("a")), (" b", _score(" b"))], [0, 1]),
        "first-blank": ([("red", _score(" red")), (".", _score("."))], [0, 3]),
        "parts-of-a-character": (
            [("", _part(0xE6)), ("", _part(0x97)), ("日", _part(0xA5)), ("b", _score("b"))],
            [0, 0, 0, 1],
        ),
        "no-character-at-all": (
            [("", _part(0xE6)), (f"{REPLACED}ab", _score("ab")), ("c", _score("c"))],
            [0, 1, 3],
        ),
        "special-tokens-are-left-out": (
            [("", _score("<s>")), ("a", _score("a")), ("", _score("<s>")), ("b", _score("b"))],
            [0, 0, 1, 1],
        ),
        "cut-short": ([("a", _score("a")), ("", _part(0xE6)), ("", _part(0x97))], [0, 1, 1]),
    },
)
def test_where_tokens_begin(tokens: list[tuple[str, TokenScore]], expected: list[int]) -> None:
    held = HeldScores()
    found = [one for text, score in tokens for one in held.push(text, [score], text)]
    assert [one.begin for one in (*found, *held.flush())] == expected


def test_a_token_that_a_stop_string_cuts() -> None:
    """The next one begins behind all of its text, not behind what of it is shown."""
    cutter, held = StopCutter(("bc",)), HeldScores()
    found = [held.push(word, [_score(word)], cutter.push(word)) for word in ("ab", "d")]
    assert [[one.begin for one in scores] for scores in found] == [[0], [2]]


def test_wire() -> None:
    """Chats have an object a token, texts four lists; minus infinity is a number JSON has."""
    scores = [_score("a"), TokenScore(" b", b" b", float("-inf"), (_score("c"), _score("d")))]
    chat = of_chat(scores)["content"]
    assert [one["logprob"] for one in chat] == [-0.5, -9999.0]
    assert [other["token"] for other in chat[1]["top_logprobs"]] == ["c", "d"]
    assert of_text([replace(scores[0], begin=3), replace(scores[1], begin=4)]) == {
        "tokens": ["a", " b"],
        "token_logprobs": [-0.5, -9999.0],
        "top_logprobs": [None, {"c": -0.5, "d": -0.5}],
        "text_offset": [3, 4],
    }


async def _counted(name: str, count: int, closed: list[str]) -> AsyncGenerator[str, None]:
    try:
        for number in range(count):
            await asyncio.sleep(0)
            yield f"{name}{number}"
    finally:
        closed.append(name)


async def _broken() -> AsyncGenerator[str, None]:
    yield "c0"
    raise ValueError("broken")


async def test_merged_streams_keep_their_order() -> None:
    closed: list[str] = []
    found = [one async for one in merged([_counted("a", 30, closed), _counted("b", 20, closed)])]
    assert [one for one in found if one[0] == "a"] == [f"a{number}" for number in range(30)]
    assert [one for one in found if one[0] == "b"] == [f"b{number}" for number in range(20)]
    assert sorted(closed) == ["a", "b"]


async def test_one_error_ends_all() -> None:
    closed: list[str] = []
    with pytest.raises(ValueError, match="broken"):
        _ = [one async for one in merged([_counted("a", 10**6, closed), _broken()])]
    assert closed == ["a"]


async def test_closing_closes_all() -> None:
    closed: list[str] = []
    both = merged([_counted("a", 10**6, closed), _counted("b", 10**6, closed)])
    assert (await anext(both))[1:] == "0"
    await both.aclose()
    await eventually_async(lambda: sorted(closed) == ["a", "b"])
