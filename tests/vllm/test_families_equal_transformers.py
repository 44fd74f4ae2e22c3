"""Each family's small checkpoint, in the real vLLM behind the real gateway and in transformers."""

from pathlib import Path

import pytest

from support.families.recordings import noise
from support.families.vllm import (
    FAMILIES,
    TOKENS,
    Upstream,
    answer_of,
    questions,
    transcribed,
    without_blanks,
    write_for_vllm,
    write_whisper,
    written_down,
)
from support.real_vllm import real_vllm

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

LIMITS = {"max_input_len": 448, "max_seq_len": 512}


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    """Of questions without media, with one, with two and a video; in float32, drawn greedily."""
    checkpoint = write_for_vllm(family, tmp_path / "checkpoint")
    with real_vllm(checkpoint, tmp_path, limits=LIMITS) as served:
        upstream = Upstream(family, tmp_path / "published")
        wanted = [*map(upstream.answer, questions(family))]
        assert [answer_of(served.url, one) for one in questions(family)] == wanted
        assert all(one.text != wanted[0].text for one in wanted[1:]), (
            "answers do not show the media"
        )


def test_recordings_are_written_down(tmp_path: Path) -> None:
    """In two languages, and translated: each answer is transformers', and none is another's."""
    checkpoint = write_whisper(tmp_path / "checkpoint")
    samples = noise(0.8, seed=3)
    with real_vllm(checkpoint, tmp_path, limits={"max_input_len": 8, "max_seq_len": 64}) as served:
        tasks = [("en", "transcribe"), ("de", "transcribe"), ("de", "translate")]
        wanted = written_down(checkpoint, samples, tasks)
        found = [transcribed(served.url, samples, *one) for one in tasks]
        assert [*map(without_blanks, found)] == wanted
        assert len(set(wanted)) == len(wanted)
        # What is longer than a window is cut there, and each part has an answer.
        longer = transcribed(served.url, noise(1.6, seed=3), *tasks[0])
        assert len(longer.split()) > TOKENS
