"""A pod whose server answers otherwise than the checkpoint is never ready, and says where."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mm_api.documents.evaluation import EVALUATION_NAME, Evaluation
from support import damaged_engines
from support.damaged_engines import damaged
from support.real_gateway import run_pair
from support.reports import difference_of, readiness_of, report_of
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

BASE, ADAPTED = 6, 2
"""Prompts of the base model and of its one adapter."""


@pytest.mark.slow
def test_an_engine_like_its_checkpoint_is_ready(built_engine: BuiltEngine, tmp_path: Path) -> None:
    """The build has kept answers, the pod gave the same, and the operator can read the figures."""
    kept = Evaluation.from_json((built_engine.directory / EVALUATION_NAME).read_bytes())
    assert len(kept.prompts) == BASE + ADAPTED
    with run_pair(built_engine, tmp_path) as pair:
        report = report_of(pair.triton)
        assert readiness_of(pair.url).is_success
    assert report.first_difference is None
    assert (report.prompts, report.failed_prompts) == (BASE + ADAPTED, 0)
    assert report.tokens == report.agreed > len(kept.prompts)


@pytest.mark.parametrize(
    ("damage", "adapter_only"),
    [
        pytest.param(damaged_engines.weights, False, id="weights"),
        pytest.param(damaged_engines.tokenizer, False, id="tokenizer", marks=pytest.mark.slow),
        pytest.param(damaged_engines.projector, False, id="projector", marks=pytest.mark.slow),
        pytest.param(damaged_engines.adapter, True, id="adapter", marks=pytest.mark.slow),
    ],
)
def test_an_engine_unlike_its_checkpoint_is_never_ready(
    built_engine: BuiltEngine, tmp_path: Path, damage: Callable[[Path], Path], *, adapter_only: bool
) -> None:
    """Every file is what the manifest says, requests are answered, and the pod stays unready."""
    wrong = damaged(built_engine, tmp_path, damage)
    with run_pair(wrong, tmp_path, awaited=False) as pair:
        report, first = difference_of(pair.triton, pair.url)
        log = [json.loads(line) for line in pair.gateway_log.read_text().splitlines()]
    refusals = [line for line in log if "EvaluationFailed" in str(line)]
    assert len(refusals) == 1, "it is not tried again"
    assert 1 <= report.failed_prompts <= (ADAPTED if adapter_only else BASE + ADAPTED)
    assert (first.adapter is not None) == adapter_only
    assert not first.answered.startswith(first.expected)
