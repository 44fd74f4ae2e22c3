"""Backend PyTorch: a pod whose answers are not its checkpoint's is never ready, and says where.

The gateway before a trtllm-serve that answers by transformers, with the checkpoint's own processor.
"""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from safetensors.torch import load_file, save_file

from mm_api.documents.evaluation import EVALUATION_NAME, Evaluation
from support.cases import cases
from support.damaged_engines import damaged
from support.reference_comparisons import compared_report
from support.reports import readiness_of, report_of
from support.served import EngineFiles
from support.tiny_llava import BuiltEngine
from support.trtllm_pods import VERSION, staged_engine, trtllm_pod
from support.trtllm_tools.install import Tools, install

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return install(tmp_path_factory.mktemp("tools") / VERSION, VERSION)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    files = staged_engine(tmp_path_factory.mktemp("staged"))
    return BuiltEngine(files.manifest.parent, files.serving)


def _negated(engine: Path, part: str) -> Path:
    path = engine / "checkpoint" / "model.safetensors"
    tensors = load_file(path)
    names = [name for name in tensors if part in name and name.endswith("weight")]
    assert names, sorted(tensors)
    for name in names:
        tensors[name] = -tensors[name]
    save_file(tensors, path, metadata={"format": "pt"})
    return path


def weights(engine: Path) -> Path:
    return _negated(engine, "mlp.down_proj")


def projector(engine: Path) -> Path:
    return _negated(engine, "merger.mlp.2")


def tokenizer(engine: Path) -> Path:
    """Exchange the first answer's token with another."""
    kept = Evaluation.from_json((engine / EVALUATION_NAME).read_bytes())
    one, other = (candidate.token for candidate in kept.prompts[0].steps[0].candidates[:2])
    path = engine / "checkpoint" / "tokenizer.json"
    content = json.loads(path.read_text())
    exchanged = {one: other, other: one}
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = {
        text: exchanged.get(number, number) for text, number in vocabulary.items()
    }
    path.write_text(json.dumps(content))
    return path


def test_a_checkpoint_that_answers_like_itself_is_ready(
    engine: BuiltEngine, tools: Tools, tmp_path: Path
) -> None:
    """Prompts with images; the server writes them itself, and returns log probabilities."""
    kept = Evaluation.from_json((engine.directory / EVALUATION_NAME).read_bytes())
    assert {one.image for one in kept.prompts} == {0, 1, 2}
    files = EngineFiles(engine.manifest, engine.serving)
    with trtllm_pod(files, tools, tmp_path) as pod:
        report = report_of(pod.served.metrics_url)
        compared = compared_report(engine, pod.url, tmp_path / "compared")
    assert (compared.prompts, compared.failed_prompts) == (20, 0)
    assert compared.agreed == compared.tokens
    assert (report.failed_prompts, report.prompts) == (0, len(kept.prompts))
    assert report.tokens == report.agreed == sum(len(one.steps) for one in kept.prompts)
    assert report.log_prob_distance is not None


@cases("damage", {"weights": weights, "projector": projector, "tokenizer": tokenizer})
def test_a_checkpoint_that_answers_otherwise_is_never_ready(
    engine: BuiltEngine, tools: Tools, tmp_path: Path, damage: Callable[[Path], Path]
) -> None:
    """Requests are answered, and the pod stays unready with prompt, token and distance."""
    wrong = damaged(engine, tmp_path, damage)
    files = EngineFiles(wrong.manifest, wrong.serving)
    with trtllm_pod(files, tools, tmp_path, awaited=False) as pod:
        report = report_of(pod.served.metrics_url)
        answer = readiness_of(pod.url)
    first = report.first_difference
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert first is not None
    detail = answer.json()["detail"]
    assert "EvaluationFailed" in detail
    assert f"token {first.token}:" in detail
    assert first.distance > first.bound
