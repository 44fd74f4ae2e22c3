"""`echo` with `logprobs`: the scores of a prompt's tokens are those of transformers.

Requests are those that evaluations send to score texts: a text or ids, `max_tokens` 0 or 1.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from openai import BadRequestError, OpenAI
from openai.types import Completion

from support import calling_llava
from support.calling_llava import ids_of

if TYPE_CHECKING:
    from support.calling_llava import Forward

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

TEXT = "Will it rain?"
OTHER = "The café is closed."
LONG = "".join(f"{number} sheep and " for number in range(90))
"""More tokens than a step reads beside an answer."""

GIVEN: dict[str, Any] = {"model": "tiny", "temperature": 0, "echo": True}
WITHIN = 1e-3
REPLACED = "\N{REPLACEMENT CHARACTER}"
"""Text of a token that is a part of a character."""


@pytest.fixture(scope="module")
def forward(checkpoint: Path) -> "Forward":
    """Log probabilities by transformers."""
    return calling_llava.forward_of(checkpoint)


def scores_of(answer: Completion, index: int = 0) -> tuple[list[str], list[Any], list[Any]]:
    """Return tokens, their log probabilities, and the likeliest ones of a choice."""
    found = answer.choices[index].logprobs
    assert found is not None
    assert found.tokens is not None
    assert found.token_logprobs is not None
    assert found.top_logprobs is not None
    assert found.text_offset is not None
    assert len(found.tokens) == len(found.token_logprobs)
    assert len(found.tokens) == len(found.top_logprobs) == len(found.text_offset)
    return found.tokens, [*found.token_logprobs], [*found.top_logprobs]


def check(
    answer: Completion, ids: list[int], forward: "Forward", most: int, index: int = 0
) -> None:
    """Compare the scores of a choice's prompt with those of transformers."""
    tokens, own, likeliest = scores_of(answer, index)
    assert own[0] is None
    assert likeliest[0] is None
    expected = forward(ids)
    assert own[1 : len(ids)] == pytest.approx(
        [float(row[token]) for row, token in zip(expected, ids[1:], strict=True)], abs=WITHIN
    )
    for place, row in enumerate(expected, start=1):
        assert _has_its_own(likeliest[place], tokens[place], own[place])
        if REPLACED not in likeliest[place]:
            assert max(1, most) <= len(likeliest[place]) <= most + 1
        if most:
            best = max(likeliest[place].values())
            assert best == pytest.approx(float(row.max()), abs=WITHIN)
            assert (own[place] == best) == (int(row.argmax()) == ids[place])


def _has_its_own(likeliest: dict[str, float], token: str, own: float) -> bool:
    """Say whether a token is among them; bytes that are no character share the likeliest's."""
    return likeliest[token] >= own if token == REPLACED else likeliest[token] == own


@pytest.mark.parametrize("most", [0, 1, 5])
@pytest.mark.parametrize("given", [TEXT, ids_of(TEXT), [0, 0, 0, 0, 0]], ids=str)
def test_scores_are_those_of_transformers(
    client: OpenAI, forward: "Forward", given: str | list[int], most: int
) -> None:
    """Of a text and of ids, in front of those of an answer, whose own are as without the prompt."""
    answer = client.completions.create(**GIVEN, prompt=given, max_tokens=5, logprobs=most)
    ids = ids_of(given) if isinstance(given, str) else given
    check(answer, ids, forward, most)
    tokens, own, likeliest = scores_of(answer)
    assert len(tokens) == len(ids) + 5
    bare = client.completions.create(
        **{**GIVEN, "echo": False}, prompt=given, max_tokens=5, logprobs=most
    )
    assert own[len(ids) :] == pytest.approx(scores_of(bare)[1], abs=WITHIN)
    for place in range(len(ids), len(own)):
        assert _has_its_own(likeliest[place], tokens[place], own[place])
    assert answer.choices[0].text.endswith(bare.choices[0].text)
    assert answer.usage == bare.usage


@pytest.mark.parametrize("text", [TEXT, OTHER, "日本 e\u0301"])
def test_offsets_are_places_in_the_text(client: OpenAI, text: str) -> None:
    """Of each token that is one: where the choice's text has it, the answer's behind the prompt."""
    answer = client.completions.create(**GIVEN, prompt=text, max_tokens=4, logprobs=0)
    choice = answer.choices[0]
    tokens, *_ = scores_of(answer)
    assert choice.logprobs is not None
    offsets = choice.logprobs.text_offset or []
    assert tokens[0] == "<s>"  # which is no part of the text
    assert offsets[:2] == [0, 0]
    assert all(one <= next_one for one, next_one in pairwise(offsets))
    assert offsets[len(ids_of(text))] == len(text)
    for token, offset in zip(tokens[1 : len(ids_of(text))], offsets[1:], strict=False):
        if token != REPLACED:
            assert choice.text[offset:].startswith(token)


def test_nothing_but_the_prompt(client: OpenAI, forward: "Forward") -> None:
    """`max_tokens: 0`: no token of an answer, with scores and without; 1: one."""
    none = client.completions.create(**GIVEN, prompt=OTHER, max_tokens=0, logprobs=1)
    check(none, ids_of(OTHER), forward, 1)
    assert len(scores_of(none)[0]) == len(ids_of(OTHER))
    assert (none.choices[0].text, none.choices[0].finish_reason) == (OTHER, "length")
    assert none.usage is not None
    assert (none.usage.prompt_tokens, none.usage.completion_tokens) == (len(ids_of(OTHER)), 0)
    bare = client.completions.create(**GIVEN, prompt=[OTHER, TEXT], max_tokens=0)
    assert [one.text for one in bare.choices] == [OTHER, TEXT]
    assert bare.choices[0].logprobs is None
    one = client.completions.create(**GIVEN, prompt=OTHER, max_tokens=1, logprobs=1)
    assert len(scores_of(one)[0]) == len(ids_of(OTHER)) + 1
    assert scores_of(one)[1][:-1] == pytest.approx(scores_of(none)[1], abs=WITHIN, nan_ok=True)


def test_several_prompts(client: OpenAI, forward: "Forward") -> None:
    """Each choice begins with its own prompt: the second one's come after `n` of the first."""
    answer = client.completions.create(
        **GIVEN, prompt=[ids_of(TEXT), ids_of(OTHER)], n=2, max_tokens=1, logprobs=2
    )
    assert [one.index for one in answer.choices] == [0, 1, 2, 3]
    for index, text in enumerate((TEXT, TEXT, OTHER, OTHER)):
        check(answer, ids_of(text), forward, 2, index)
    best = client.completions.create(
        **GIVEN, prompt=[TEXT, OTHER], best_of=2, max_tokens=1, logprobs=2
    )
    assert [one.text[:1] for one in best.choices] == ["W", "T"]
    check(best, ids_of(OTHER), forward, 2, 1)


def test_one_token_alone(client: OpenAI) -> None:
    """There is nothing before it, and nothing to score."""
    answer = client.completions.create(**GIVEN, prompt=[65], max_tokens=0, logprobs=3)
    assert scores_of(answer) == (["A"], [None], [None])


@pytest.mark.parametrize("most", [0, 1])
def test_a_stream_begins_with_the_prompt(client: OpenAI, most: int) -> None:
    """Its scores come with it in one chunk; all chunks together are the plain answer."""
    given: dict[str, Any] = {
        **GIVEN,
        "prompt": [OTHER, TEXT],
        "max_tokens": most * 4,
        "logprobs": most,
        "logit_bias": {str(ord("A")): 50},  # parts of characters come together
    }
    plain = client.completions.create(**given)
    for index, text in enumerate((OTHER, TEXT)):
        chunks = [
            chunk.choices[0]
            for chunk in client.completions.create(**given, stream=True)
            if chunk.choices and chunk.choices[0].index == index
        ]
        assert chunks[0].text == text
        assert chunks[0].logprobs is not None
        assert len(chunks[0].logprobs.tokens or ()) == len(ids_of(text))
        assert "".join(one.text for one in chunks) == plain.choices[index].text
        scores = plain.choices[index].logprobs
        assert scores is not None
        for name in ("tokens", "text_offset", "token_logprobs"):
            joined = [
                value for one in chunks if one.logprobs for value in getattr(one.logprobs, name)
            ]
            plainly = getattr(scores, name)
            assert joined == (pytest.approx(plainly, abs=WITHIN) if "prob" in name else plainly)


def test_beside_other_answers(client: OpenAI, forward: "Forward") -> None:
    """Prompts longer than a part of one are scored beside answers, which stay the same."""
    ids = ids_of(LONG)
    assert len(ids) > 1000

    def answer(text: str) -> list[str]:
        stream = client.completions.create(
            model="tiny", prompt=text, temperature=0, max_tokens=200, stream=True
        )
        return [chunk.choices[0].text for chunk in stream if chunk.choices]

    def score(_: int) -> Completion:
        return client.completions.create(**GIVEN, prompt=LONG, max_tokens=0, logprobs=1)

    texts = [TEXT, OTHER, "no"]
    alone = ["".join(answer(text)) for text in texts]
    with ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(answer, text) for text in texts]
        scored = [threads.submit(score, number) for number in range(3)]
        assert ["".join(one.result()) for one in answers] == alone
        for one in scored:
            check(one.result(), ids, forward, 1)


def test_what_is_kept_of_prompts_changes_nothing(client: OpenAI, forward: "Forward") -> None:
    """The same prompt again, once with more behind it, has all of its scores."""
    for text in (LONG, LONG, f"{LONG}end"):
        answer = client.completions.create(**GIVEN, prompt=text, max_tokens=1, logprobs=1)
        check(answer, ids_of(text), forward, 1)


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        pytest.param({"logprobs": 21}, "logprobs", "20", id="too-many-likeliest"),
        pytest.param({"logprobs": -1}, "logprobs", "0", id="below-0"),
        pytest.param(
            {"prompt": ["a" * 1000] * 4, "logprobs": 20},
            "logprobs",
            "84084 scores of the prompt are wanted, 21 of each of 4004 tokens; at most 65536",
            id="too-many-scores",
        ),
        pytest.param(
            {"prompt": "a" * 1000, "logprobs": 20, "n": 4}, "logprobs", "84084", id="of-samples"
        ),
        pytest.param({"max_tokens": 0, "echo": False}, "max_tokens", "echo", id="no-answer"),
        pytest.param({"max_tokens": 0, "echo": None}, "max_tokens", "echo", id="nothing"),
        pytest.param({"max_tokens": -1}, "max_tokens", "0", id="fewer-than-none"),
    ],
)
def test_refusals(client: OpenAI, fields: dict[str, Any], param: str, says: str) -> None:
    """By name, before anything is sent to the engine."""
    with pytest.raises(BadRequestError) as refusal:
        client.completions.create(**{**GIVEN, "prompt": TEXT, **fields})
    assert (refusal.value.param, refusal.value.type) == (param, "invalid_request_error")
    assert says in refusal.value.message
