"""Backend PyTorch: the plan's `trtllm-serve` is started, watched, started again and ended."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.cli import main
from support.cases import cases
from support.eventually import eventually
from support.served import EngineFiles, Served, start_serving
from support.trtllm_pods import VERSION, hollow_engine, tool_environment, with_free_port
from support.trtllm_tools.install import Tools, install

SECONDS = 120


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return install(tmp_path_factory.mktemp("tools") / VERSION, VERSION)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EngineFiles:
    return hollow_engine(tmp_path_factory.mktemp("staged"))


@contextmanager
def serving(
    engine: EngineFiles, tools: Tools, folder: Path, *, loads_until: Path | None = None
) -> Iterator[Served]:
    plan = with_free_port(engine.serving, folder)
    environment = tool_environment(tools, loads_until)
    with start_serving(engine.manifest, plan, folder=folder, environment=environment) as served:
        yield served


def ready(served: Served) -> int | None:
    try:
        return httpx.get(f"{served.metrics_url}/health/ready", timeout=30).status_code
    except httpx.TransportError:
        return None


def wait_for(served: Served, words: str) -> None:
    eventually(
        lambda: words in served.log, seconds=SECONDS, pause_seconds=0.05, showing=lambda: served.log
    )


def wait_until_ready(served: Served, starts: int = 1) -> None:
    """Wait as the kubelet does, and until the command knows it of so many starts."""
    deadline = time.monotonic() + SECONDS
    while served.log.count("ready after") < starts or ready(served) != httpx.codes.OK:
        assert served.process.poll() is None, served.log
        assert time.monotonic() < deadline, served.log
        time.sleep(0.05)


def kill_server(served: Served) -> None:
    os.kill(served.server_pid, signal.SIGKILL)


def test_the_plans_command_serves_and_ends(
    engine: EngineFiles, tools: Tools, tmp_path: Path
) -> None:
    loaded = tmp_path / "loaded"
    with serving(engine, tools, tmp_path, loads_until=loaded) as served:
        wait_for(served, "options {")
        before = ready(served)
        loaded.touch()
        wait_until_ready(served)
        plan = ServingPlan.from_json((tmp_path / "serving.json").read_bytes()).trtllm_serve
        assert plan
        process = Path(f"/proc/{served.server_pid}")
        words = (process / "cmdline").read_text().split("\0")[:-1]
        folder = (process / "cwd").resolve()
        variables = (process / "environ").read_text().split("\0")
        metrics = httpx.get(f"{served.metrics_url}/metrics", timeout=30).text
        live = httpx.get(f"{served.metrics_url}/health/live", timeout=30).status_code
        served.terminate()
        assert served.wait() == 0
    assert before == httpx.codes.SERVICE_UNAVAILABLE
    assert live == httpx.codes.OK
    assert words[-len(plan.argv) + 1 :] == plan.argv[1:]
    assert {"HF_HUB_OFFLINE=1", "PMIX_MCA_gds=hash"} <= set(variables)
    assert (folder / plan.checkpoint).resolve() == engine.manifest.parent / "checkpoint"
    assert json.loads((folder / plan.options_file).read_text()) == plan.options
    assert f"options {json.dumps(plan.options, sort_keys=True)}" in served.log
    assert "e2e_request_latency_seconds_count" in metrics
    assert 'mm_server_restarts_total{model="qwen2-vl"} 0.0' in metrics


@pytest.mark.slow
def test_a_dead_server_is_started_again_until_it_is_too_much(
    engine: EngineFiles, tools: Tools, tmp_path: Path
) -> None:
    with serving(engine, tools, tmp_path) as served:
        for death in (1, 2):
            wait_until_ready(served, starts=death)
            kill_server(served)
            wait_for(served, f"exit code 137; it is started again in {death} s")
        wait_until_ready(served, starts=3)
        metrics = httpx.get(f"{served.metrics_url}/metrics", timeout=30).text
        kill_server(served)
        assert served.wait() == 1
    assert 'mm_server_restarts_total{model="qwen2-vl"} 2.0' in metrics.splitlines()
    assert "trtllm-serve ended unexpectedly 3 times within 300 s" in served.log


def test_a_server_of_several_ranks_takes_the_container_with_it(
    tools: Tools, tmp_path: Path
) -> None:
    """Processes of other ranks would keep their GPUs, so nothing is started beside them."""
    engine = hollow_engine(tmp_path / "staged", parallelism={"tensor": 2})
    with serving(engine, tools, tmp_path) as served:
        wait_until_ready(served)
        kill_server(served)
        assert served.wait() == 1
    assert "trtllm-serve ended unexpectedly with exit code 137; the container ends" in served.log


@cases(
    "version words",
    {
        "other": ("1.0.0", "has TensorRT-LLM 1.0.0; the plan was made for 1.1.0"),
        "none": (None, "trtllm-serve is not in this image: set spec.runtime.image"),
    },
)
def test_an_image_that_cannot_serve_it_is_refused(
    engine: EngineFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    version: str | None,
    words: str,
) -> None:
    """Before anything is loaded the container ends for good, and says what to set."""
    if version:
        tools = install(tmp_path / "tools", version)
        for name, value in tools.environment(os.environ["PATH"]).items():
            monkeypatch.setenv(name, value)
    documents = ["--manifest", str(engine.manifest), "--serving", str(engine.serving)]
    assert main(["serve", *documents, "--repository", str(tmp_path / "pod" / "repository")]) == 3
    assert words in caplog.text


def test_a_plan_without_a_command_is_refused(
    engine: EngineFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = ServingPlan.from_json(engine.serving.read_bytes())
    serving = tmp_path / "serving.json"
    serving.write_text(plan.model_copy(update={"trtllm_serve": None}).to_json())
    documents = ["--manifest", str(engine.manifest), "--serving", str(serving)]
    assert main(["serve", *documents, "--repository", str(tmp_path / "pod" / "repository")]) == 3
    assert "does not say how trtllm-serve is called" in caplog.text
