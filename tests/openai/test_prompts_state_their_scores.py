"""`prompt_logprobs`: the scores of a prompt's tokens beside the answer, those of transformers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from openai import BadRequestError, OpenAI

from support import calling_llava
from support.calling_llava import ids_of
from support.images import data_url, encode, plain_image

if TYPE_CHECKING:
    from support.calling_llava import Forward

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

TEXT = "The café"
MESSAGES = [{"role": "user", "content": "Will it rain?"}]
WITHIN = 1e-3
EQUAL = 1e-5
"""Tokens whose scores differ by less may change places."""


def stated(most: int, **fields: Any) -> dict[str, Any]:
    """Return the fields of a request with scores of its prompt."""
    return {
        "model": "tiny",
        "temperature": 0,
        "max_tokens": 2,
        "extra_body": {"prompt_logprobs": most},
        **fields,
    }


@pytest.fixture(scope="module")
def forward(checkpoint: Path) -> "Forward":
    """Log probabilities by transformers."""
    return calling_llava.forward_of(checkpoint)


def check(found: list[Any], ids: list[int], forward: "Forward", most: int) -> None:
    """Compare what is stated of a prompt with transformers."""
    assert found[0] is None
    assert len(found) == len(ids)
    for token, row, one in zip(ids[1:], forward(ids), found[1:], strict=True):
        own = one[str(token)]
        best_rank = 1 + int((row > row[token] + EQUAL).sum())
        worst_rank = int((row > row[token] - EQUAL).sum())
        assert own["logprob"] == pytest.approx(float(row[token]), abs=WITHIN)
        assert best_rank <= own["rank"] <= worst_rank
        best = sorted(one.values(), key=lambda score: score["rank"])[:most]
        assert [score["rank"] for score in best] == list(range(1, most + 1))
        values = row.topk(most).values.tolist()
        assert [score["logprob"] for score in best] == pytest.approx(values, abs=WITHIN)
        assert len(one) == most + (own["rank"] > most)


@pytest.mark.parametrize("most", [0, 1, 5, 20])
@pytest.mark.parametrize("given", [TEXT, ids_of(TEXT), [72]], ids=["text", "ids", "one-token"])
def test_of_completions(
    client: OpenAI, forward: "Forward", given: str | list[int], most: int
) -> None:
    """In each choice; the answer and its own scores are as they are without."""
    answer = client.completions.create(**stated(most, prompt=given, n=2, logprobs=1))
    ids = ids_of(given) if isinstance(given, str) else given
    bare = client.completions.create(
        model="tiny", temperature=0, max_tokens=2, prompt=given, n=2, logprobs=1
    )
    assert answer.usage == bare.usage
    for one, other in zip(answer.choices, bare.choices, strict=True):
        extra = one.model_extra or {}
        check(extra.pop("prompt_logprobs"), ids, forward, most)
        assert one == other


@pytest.mark.parametrize("fields", [{}, {"logprobs": True, "top_logprobs": 3}, {"n": 2}], ids=str)
def test_of_chats(client: OpenAI, forward: "Forward", fields: dict[str, Any]) -> None:
    """Once, of the prompt that the template writes."""
    answer = client.chat.completions.create(**stated(2, messages=MESSAGES, **fields))
    ids = ids_of("user\nWill it rain?\nassistant\n")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(ids)
    check((answer.model_extra or {})["prompt_logprobs"], ids, forward, 2)


def test_several_prompts(client: OpenAI, forward: "Forward") -> None:
    """Each choice states its own."""
    answer = client.completions.create(**stated(1, prompt=[TEXT, "no"]))
    for one, text in zip(answer.choices, (TEXT, "no"), strict=True):
        check((one.model_extra or {})["prompt_logprobs"], ids_of(text), forward, 1)


@pytest.mark.parametrize("logprobs", [None, 0, 3])
def test_beside_an_echo(client: OpenAI, forward: "Forward", logprobs: int | None) -> None:
    """Both have as many of the likeliest as they are requested with."""
    given = stated(2, prompt=TEXT, echo=True, logprobs=logprobs)
    one = client.completions.create(**given).choices[0]
    given.pop("extra_body")
    other = client.completions.create(**given).choices[0]
    check((one.model_extra or {}).pop("prompt_logprobs"), ids_of(TEXT), forward, 2)
    assert one == other


def test_a_prompt_alone(client: OpenAI, forward: "Forward") -> None:
    """`max_tokens: 0` with `echo`: nothing is answered."""
    given = stated(1, prompt=TEXT, echo=True, max_tokens=0)
    answer = client.completions.create(**given)
    assert answer.choices[0].text == TEXT
    check((answer.choices[0].model_extra or {})["prompt_logprobs"], ids_of(TEXT), forward, 1)


def test_a_call_of_a_tool(client: OpenAI) -> None:
    """The answer's form is another matter."""
    tool = {"type": "function", "function": {"name": "rain", "parameters": {"type": "object"}}}
    answer = client.chat.completions.create(
        **stated(0, messages=MESSAGES, tools=[tool], tool_choice="required", max_tokens=60)
    )
    found = (answer.model_extra or {})["prompt_logprobs"]
    assert answer.usage is not None
    assert len(found) == answer.usage.prompt_tokens


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({"prompt": "a" * 1000, "n": 4}, "84084 scores of the prompt", id="too-many"),
        pytest.param({"prompt": TEXT, "stream": True}, "a stream has no scores", id="stream"),
        pytest.param(
            {"prompt": ["a" * 1000] * 4, "echo": True, "logprobs": 1}, "84084", id="beside-an-echo"
        ),
    ],
)
def test_refusals(client: OpenAI, fields: dict[str, Any], says: str) -> None:
    """By name, before anything is sent to the engine."""
    with pytest.raises(BadRequestError) as refusal:
        client.completions.create(**stated(20, **fields))
    assert (refusal.value.param, says in refusal.value.message) == ("prompt_logprobs", True)


def test_images_have_no_scores(client: OpenAI) -> None:
    """Their features are no tokens."""
    content = [{"type": "image_url", "image_url": {"url": data_url(encode(plain_image()))}}]
    with pytest.raises(BadRequestError, match="are no tokens") as refusal:
        client.chat.completions.create(**stated(0, messages=[{"role": "user", "content": content}]))
    assert (refusal.value.param, refusal.value.code) == ("prompt_logprobs", "unsupported_parameter")
