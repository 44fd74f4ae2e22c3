"""`mm-runtime compare`: a real gateway before an engine, and transformers in float32 beside it."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from mm_api.backends import REFERENCE
from mm_api.contract import ExitCode
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.evaluation import EVALUATION_NAME, EvaluationReport
from mm_api.documents.serving_plan import ServingPlan
from mm_edge.errors import InvalidRequestError
from mm_runtime.backends import BACKENDS
from mm_runtime.base.engine_python import VARIABLE
from mm_runtime.cli import main
from mm_runtime.engine_build.commands.in_process import (
    COUNT,
    LOGITS,
    TOKENS,
    InProcess,
    greedy,
    in_process,
)
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.wiring import build_gateway
from mm_runtime.serving.directory import EngineDirectory
from support import damaged_engines
from support.build_plans import serving_plan
from support.cases import cases
from support.damaged_engines import damaged
from support.families.pipeline import build
from support.gateways import serve
from support.ports import free_ports
from support.tiny_llava import BuiltEngine, shared_engine
from support.tiny_t5 import CHECKPOINT as T5


class InProcessEngine:
    """Answers greedily, each token with its log probability."""

    def __init__(self, models: InProcess, *, scored: bool = True) -> None:
        self._models = models
        self._scored = scored

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        if request.likeliest is not None and not self._scored:
            raise InvalidRequestError("`logprobs` are not served.", param="logprobs")
        inputs = greedy(request.prompt, request.max_tokens)
        if request.images:
            inputs["image_bytes_input"] = np.stack(request.images)[np.newaxis]
        (piece,) = await asyncio.to_thread(self._models.answer, inputs)
        tokens = piece[TOKENS].reshape(-1)[: int(piece[COUNT].item())].tolist()
        rows = piece[LOGITS].reshape(-1, piece[LOGITS].shape[-1])
        before = ""
        for number, (token, row) in enumerate(zip(tokens, rows, strict=False), 1):
            text = self._models.decoded(tokens[:number])
            added, before = text[len(before) :], text
            log_prob = float(row[token] - np.logaddexp.reduce(row.astype(np.float64)))
            yield Text(added, 1, (TokenScore(added, added.encode(), log_prob),))
        full = len(tokens) == request.max_tokens
        yield Ended(FinishReason.LENGTH if full else FinishReason.STOP, len(tokens))

    async def is_ready(self) -> bool:
        return True


TOKEN = "of-a-test"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    return shared_engine(tmp_path_factory)


@asynccontextmanager
async def served(
    engine: BuiltEngine, *, scored: bool = True, tokens: Path | None = None
) -> AsyncIterator[str]:
    with in_process(EngineDirectory.open(engine.directory)) as models:
        gateway = build_gateway(
            manifest=EngineManifest.from_json(engine.manifest.read_bytes()),
            serving=ServingPlan.from_json(engine.serving.read_bytes()),
            engine_dir=engine.directory,
            engine=InProcessEngine(models, scored=scored),
            backend=BACKENDS[REFERENCE.name],
            auth_token_file=tokens,
        )
        async with serve(gateway) as running:
            yield f"{running.url}/v1"


async def compare(engine: BuiltEngine, url: str, log: Path, *more: str) -> int:
    documents = ["--manifest", str(engine.manifest), "--serving", str(engine.serving)]
    arguments = [*documents, "--url", url, "--termination-log", str(log), *more]
    return await asyncio.to_thread(main, ["compare", *arguments])


async def test_a_model_agrees_with_its_checkpoint(engine: BuiltEngine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with served(engine) as url:
        assert await compare(engine, url, log) == ExitCode.OK
    report = EvaluationReport.from_json(log.read_bytes())

    assert (report.prompts, report.failed_prompts, report.near_ties) == (20, 0, 0)
    assert report.agreed == report.tokens > 20
    assert report.first_difference is None
    assert report.log_prob_distance is not None
    assert report.log_prob_distance <= 0.001
    figures = report.reference
    assert figures is not None
    assert (figures.dtype, figures.bound, figures.first_differing_token) == ("float32", 0.02, None)
    assert figures.mean_log_prob_distance is not None


async def test_a_damaged_model_is_shown_with_prompt_and_token(
    engine: BuiltEngine, tmp_path: Path
) -> None:
    wrong, log = damaged(engine, tmp_path, damaged_engines.weights), tmp_path / "log"
    async with served(wrong) as url:
        assert await compare(engine, url, log) == ExitCode.OK
    report = EvaluationReport.from_json(log.read_bytes())

    assert report.failed_prompts > 0
    assert report.problem is not None
    assert report.reference is not None
    assert report.reference.first_differing_token is not None


@pytest.mark.slow
async def test_tokens_alone_are_compared_where_nothing_scores_them(
    engine: BuiltEngine, tmp_path: Path
) -> None:
    tokens, log = tmp_path / "tokens", tmp_path / "log"
    tokens.write_text(f"team: {TOKEN}\n")
    async with served(engine, scored=False, tokens=tokens) as url:
        assert await compare(engine, url, log) != ExitCode.OK
        assert "401" in log.read_text()
        assert await compare(engine, url, log, "--auth-token-file", str(tokens)) == ExitCode.OK
    report = EvaluationReport.from_json(log.read_bytes())
    assert (report.prompts, report.failed_prompts, report.log_prob_distance) == (20, 0, None)


async def test_encoder_decoders_are_compared(tmp_path: Path) -> None:
    directory, log = build(T5, tmp_path / "store"), tmp_path / "log"
    engine = BuiltEngine(directory.root, tmp_path / "serving.json")
    engine.serving.write_text(serving_plan(directory.manifest.fingerprint).to_json())
    async with served(engine) as url:
        assert await compare(engine, url, log) == ExitCode.OK
    report = EvaluationReport.from_json(log.read_bytes())
    assert (report.prompts, report.failed_prompts) == (20, 0)


async def test_another_revision_ends_the_comparison(engine: BuiltEngine, tmp_path: Path) -> None:
    other, log = tmp_path / "other", tmp_path / "log"
    other.mkdir()
    for path in engine.directory.iterdir():
        (other / path.name).symlink_to(path)
    (other / "manifest.json").unlink()
    changed = {"fingerprint": "c" * 64}
    manifest = EngineManifest.from_json(engine.manifest.read_bytes())
    files = [one for one in manifest.files if one.path != EVALUATION_NAME]
    manifest = manifest.model_copy(update={**changed, "files": files})
    (other / "manifest.json").write_text(manifest.to_json())
    serving = ServingPlan.from_json(engine.serving.read_bytes()).model_copy(update=changed)
    (tmp_path / "serving.json").write_text(serving.to_json())
    renamed = BuiltEngine(other, tmp_path / "serving.json")
    async with served(renamed) as url:
        assert await compare(engine, url, log) == ExitCode.RETRY
    assert "another revision answered (fp_cccccccccc" in log.read_text()


async def test_nothing_that_listens_is_a_failure(engine: BuiltEngine, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "log"
    assert await compare(engine, f"http://127.0.0.1:{port}/v1", log) == ExitCode.RETRY
    assert f"127.0.0.1:{port}/v1/chat/completions does not answer" in log.read_text()


@cases(
    "changes words",
    {
        "engines": ({"backend": "TensorRT"}, "holds no checkpoint that transformers could run"),
        "another-plan": ({"fingerprint": "d" * 64}, "is of another engine"),
    },
)
async def test_what_cannot_be_compared_says_why(
    engine: BuiltEngine, tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    log, manifest = tmp_path / "log", json.loads(engine.manifest.read_text())
    serving = json.loads(engine.serving.read_text())
    if "backend" in changes:
        manifest["plan"]["engine"] |= changes
    else:
        serving |= changes
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "serving.json").write_text(json.dumps(serving))
    copy = BuiltEngine(tmp_path, tmp_path / "serving.json")
    assert await compare(copy, "http://127.0.0.1:1/v1", log) == ExitCode.PERMANENT
    assert words in log.read_text()


def test_the_command_ends_as_its_process(
    engine: BuiltEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, sys.executable)
    log, missing = tmp_path / "log", tmp_path / "no-such-file"
    documents = ["--manifest", str(missing), "--serving", str(engine.serving)]
    options = ["--url", "http://127.0.0.1:1/v1", "--termination-log", str(log)]
    assert main(["compare", *documents, *options]) == ExitCode.PERMANENT
    assert f"{missing} does not exist" in log.read_text()
