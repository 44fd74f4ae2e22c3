"""The checkpoint's own answers are computed by the packages of NVIDIA's image, and are the same."""

from pathlib import Path

import pytest

from mm_api.documents.evaluation import Evaluation
from mm_runtime.engine_build.commands.evaluation import keep_evaluation
from mm_runtime.engine_build.commands.step import StepContext
from published_layout import published
from support.native.engines import checkpoint_of, evaluated_engine
from support.twin import Twin, keeps_answers, versions

pytestmark = [pytest.mark.twin, pytest.mark.timeout(900)]

FAMILIES = ("llava", "llava-onevision", "vila", "blip2-opt", "mllama", "qwen2-vl", "t5", "bart")


def kept(context: StepContext) -> list[list[int]]:
    evaluation = Evaluation.from_json(context.paths.evaluation.read_bytes())
    return [[step.candidates[0].token for step in one.steps] for one in evaluation.prompts]


@pytest.mark.parametrize("version", [one for one in versions() if keeps_answers(one)])
@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_those_of_newer_packages(family: str, version: str, tmp_path: Path) -> None:
    """Step `evaluation` skips nothing in the newest; its tokens are those computed here."""
    twin = Twin(version)
    if twin.absent:
        pytest.skip(twin.absent)
    both: list[list[list[int]]] = []

    def keep(context: StepContext) -> None:
        keep_evaluation(context)
        both.append(kept(context))
        where = ("--source", context.source, "--store", str(context.paths.store))
        named = (*where, "--fingerprint", context.plan.fingerprint)
        done = twin.run("-m", "mm_runtime.engine_build.commands.evaluation", *named)
        # transformers of older images differ: there a warning may take the place of answers.
        skips = "EvaluationSkipped" in done.stdout and version == versions()[0]
        assert (done.returncode, skips) == (0, False), done.stdout
        both.append(kept(context))

    checkpoint = published(checkpoint_of(family, tmp_path / "new"), tmp_path / "published")
    evaluated_engine(family, tmp_path, version, checkpoint=checkpoint, keep=keep)

    assert both[0] == both[1]


def test_an_image_that_cannot_compute_them_says_why(tmp_path: Path) -> None:
    """The engine is built all the same, and no pod is compared with it."""
    version = versions()[-1]
    twin = Twin(version)
    assert not keeps_answers(version)
    if twin.absent:
        pytest.skip(twin.absent)
    printed: list[str] = []

    def keep(context: StepContext) -> None:
        where = ("--source", context.source, "--store", str(context.paths.store))
        named = (*where, "--fingerprint", context.plan.fingerprint)
        done = twin.run("-m", "mm_runtime.engine_build.commands.evaluation", *named)
        assert done.returncode == 0, done.stdout
        assert not context.paths.evaluation.exists()
        printed.append(done.stdout)

    checkpoint = published(checkpoint_of("llava", tmp_path / "new"), tmp_path / "published")
    evaluated_engine("llava", tmp_path, version, checkpoint=checkpoint, keep=keep)

    assert "EvaluationSkipped" in printed[0]
    assert "AttentionInterface" in printed[0]
