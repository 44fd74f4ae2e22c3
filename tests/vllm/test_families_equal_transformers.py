"""Each family's small checkpoint, in the real vLLM behind the real gateway and in transformers."""

from pathlib import Path

import httpx
import pytest

from support.families.recordings import recording_part
from support.families.served import image_part
from support.families.vllm import (
    FAMILIES,
    QUESTION,
    TOKENS,
    Answer,
    Question,
    Upstream,
    questions,
    without_blanks,
    write_for_vllm,
)
from support.real_vllm import ANSWER_SECONDS, RealVllm, real_vllm

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

LIMITS = {"max_input_len": 448, "max_seq_len": 512}


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    """Of questions without media, with one and with two; in float32, drawn greedily."""
    checkpoint = write_for_vllm(family, tmp_path / "checkpoint")
    with real_vllm(checkpoint, tmp_path, limits=LIMITS) as served:
        upstream = Upstream(family, tmp_path / "published")
        wanted = [*map(upstream.answer, questions(family))]
        assert [_answer(served, one) for one in questions(family)] == wanted
        assert all(one.text != wanted[0].text for one in wanted[1:]), (
            "answers do not show the media"
        )


def _answer(served: RealVllm, question: Question) -> Answer:
    """Return the answer to a question."""
    media = [*map(image_part, question.images), *map(recording_part, question.recordings)]
    content = [*media, {"type": "text", "text": QUESTION}]
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": TOKENS,
        "skip_special_tokens": False,
    }
    answer = httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=ANSWER_SECONDS)
    assert answer.status_code == 200, answer.text
    usage, (choice,) = answer.json()["usage"], answer.json()["choices"]
    text = without_blanks(choice["message"]["content"])
    return Answer(text, usage["completion_tokens"], usage["prompt_tokens"])
