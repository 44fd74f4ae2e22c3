"""Backend PyTorch: a pod whose answers are not its checkpoint's is never ready, and says where.

The gateway before a trtllm-serve that answers by transformers, with the checkpoint's own processor.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.evaluation import EVALUATION_NAME, Evaluation, EvaluationReport
from mm_runtime.cli import main
from support.cases import cases
from support.damaged_engines import damaged, exchange, negate
from support.reports import difference_of, report_of
from support.served import EngineFiles
from support.tiny_llava import BuiltEngine
from support.trtllm_pods import VERSION, staged_engine, trtllm_pod
from support.trtllm_tools.install import Tools, install


def compared_report(engine: BuiltEngine, url: str, log: Path) -> EvaluationReport:
    documents = ["--manifest", str(engine.manifest), "--serving", str(engine.serving)]
    code = main(["compare", *documents, "--url", f"{url}/v1", "--termination-log", str(log)])
    assert code == ExitCode.OK, log.read_text()
    return EvaluationReport.from_json(log.read_bytes())


pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return install(tmp_path_factory.mktemp("tools") / VERSION, VERSION)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    files = staged_engine(tmp_path_factory.mktemp("staged"))
    return BuiltEngine(files.manifest.parent, files.serving)


def weights(engine: Path) -> Path:
    return negate(engine / "checkpoint" / "model.safetensors", "mlp.down_proj.weight")


def projector(engine: Path) -> Path:
    return negate(engine / "checkpoint" / "model.safetensors", "merger.mlp.2.weight")


def tokenizer(engine: Path) -> Path:
    """Exchange the first answer's token with another."""
    kept = Evaluation.from_json((engine / EVALUATION_NAME).read_bytes())
    one, other = (candidate.token for candidate in kept.prompts[0].steps[0].candidates[:2])
    return exchange(engine / "checkpoint" / "tokenizer.json", one, other)


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
        difference_of(pod.served.metrics_url, pod.url)
