"""Each family's small checkpoint, in the real vLLM behind the real gateway and in transformers."""

from pathlib import Path

import pytest

from support.families.vllm import FAMILIES, Upstream, answer_of, questions, write_for_vllm
from support.real_vllm import real_vllm

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

LIMITS = {"max_input_len": 448, "max_seq_len": 512}


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    """Of questions without media, with one and with two; in float32, drawn greedily."""
    checkpoint = write_for_vllm(family, tmp_path / "checkpoint")
    with real_vllm(checkpoint, tmp_path, limits=LIMITS) as served:
        upstream = Upstream(family, tmp_path / "published")
        wanted = [*map(upstream.answer, questions(family))]
        assert [answer_of(served.url, one) for one in questions(family)] == wanted
        assert all(one.text != wanted[0].text for one in wanted[1:]), (
            "answers do not show the media"
        )
