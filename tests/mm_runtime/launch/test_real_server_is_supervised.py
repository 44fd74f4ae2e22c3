"""`mm-runtime serve` with the real tritonserver: starts, drains, refuses, leaves nothing."""

import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from mm_api.contract import ExitCode
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.metrics import EXECUTING_REQUESTS
from mm_runtime.cli import main
from mm_runtime.launch.arguments import SHM_PREFIX_DIGITS, ServerOptions
from mm_runtime.settings import QUIET_SECONDS, Ports
from support.build_plans import change_serving, serving_plan
from support.cases import cases
from support.ended import wait_until_gone
from support.eventually import eventually
from support.image_host import serve_images
from support.ports import free_ports
from support.served import EngineFiles, Served, start_serving

pytestmark = pytest.mark.triton

REQUEST_SECONDS = 60
SHM = Path("/dev/shm")


CLIENTS = 16
"""As many as the plan lets wait: their images all come in one moment, before one of them runs."""


def query(served: Served, *, tokens: int = 4, image: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"text_input": "a red square", "max_tokens": tokens}
    body |= {"min_tokens": tokens, "end_id": -1}
    if image:
        body |= {"text_input": "<image> a red square", "image_url_input": image}
    url = f"{served.http_url}/v2/models/ensemble/generate"
    response = httpx.post(url, json=body, timeout=REQUEST_SECONDS)
    assert response.is_success, response.text
    answer: dict[str, Any] = response.json()
    return answer


def regions(served: Served) -> list[str]:
    options = ServerOptions(
        repository=served.folder / "repository",
        backends=served.folder / "backends",
        ports=Ports(),
        pools=serving_plan("0" * 64).pools,
        exit_seconds=5,
        secret="unused",
    )
    assert len(options.shm_prefix) == SHM_PREFIX_DIGITS + 3
    return [path.name for path in SHM.glob(f"{options.shm_prefix}*")]


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@pytest.mark.slow
def test_ensemble_answers(served: Served) -> None:
    assert isinstance(query(served)["text_output"], str)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", ["ensemble", "preprocessing", "multimodal_encoders", "tensorrt_llm", "postprocessing"]
)
def test_models_have_their_tensors(served: Served, model: str) -> None:
    upstream = json.loads(
        (Path(__file__).parents[1] / "repository" / "upstream_v0.19.0.json").read_text()
    )
    url = f"{served.http_url}/v2/models/{model}"
    metadata = httpx.get(url, timeout=REQUEST_SECONDS).raise_for_status().json()
    for side in ("inputs", "outputs"):
        found = {tensor["name"] for tensor in metadata[side]}
        assert {tensor["name"] for tensor in upstream[model][side]} <= found


@pytest.mark.slow
def test_drain_waits_for_the_gateway_and_for_what_is_in_flight(
    random_engine: EngineFiles, tmp_path: Path
) -> None:
    """After SIGTERM the server answers until the gateway has closed its port, and all it took up.

    Requests that come before then and wait for an image are fetched, run and answered in full.
    """
    serving = tmp_path / "serving.json"
    shutil.copy(random_engine.serving, serving)
    fetches = {
        "allowed_hosts": ["localhost"],
        "allow_private_networks": True,
        "fetch_timeout_seconds": REQUEST_SECONDS,
    }
    change_serving(serving, gateway=fetches)
    (port,) = free_ports(1)
    with (
        socket.create_server(("127.0.0.1", port)) as gateway,
        serve_images() as host,
        start_serving(random_engine.manifest, serving, "--gateway-port", str(port)) as served,
        ThreadPoolExecutor(CLIENTS) as clients,
    ):
        served.wait_until_ready()
        assert regions(served) != []
        served.terminate()
        _wait_for_log(served, "draining for at most")
        time.sleep(2 * QUIET_SECONDS)  # longer than a drain that knew of no gateway would last
        assert isinstance(query(served)["text_output"], str)
        assert served.process.poll() is None
        url = host.url("late")
        answers = [clients.submit(query, served, tokens=90, image=url) for _ in range(CLIENTS)]
        # All of them: one that comes while the server stops is refused, and rightly so.
        _wait_until_taken_up(served, CLIENTS)
        gateway.close()
        time.sleep(2 * QUIET_SECONDS)  # longer than a drain that knew of no request would last
        host.release()
        texts = [one.result(REQUEST_SECONDS)["text_output"] for one in answers]
        assert all(isinstance(text, str) for text in texts)
        assert served.wait() == 0
        assert regions(served) == []


def test_stop_during_start_needs_no_drain(random_engine: EngineFiles) -> None:
    assert any(_is_stopped_while_it_loads(random_engine) for _ in range(5))


def _is_stopped_while_it_loads(engine: EngineFiles) -> bool:
    """Stop one; say whether it was not ready before, as on a machine that is busy elsewhere."""
    with start_serving(engine.manifest, engine.serving) as served:
        _wait_for_log(served, "verified")
        served.terminate()
        assert served.wait() == 0
        assert regions(served) == []
        assert ("draining" in served.log) <= ("ready after" in served.log)
        return "draining" not in served.log


def kill_server(served: Served) -> None:
    (server,) = children_of(served.process.pid)
    os.kill(server, signal.SIGKILL)
    wait_until_gone(server)


@pytest.mark.slow
def test_dead_server_is_started_again(served: Served) -> None:
    before = set(regions(served))
    kill_server(served)
    _wait_for_log(served, "exit code 137; it is started again in 1 s")
    served.wait_until_ready(starts=2)
    assert isinstance(query(served)["text_output"], str)
    assert not before & set(regions(served))
    text = httpx.get(f"{served.metrics_url}/metrics", timeout=REQUEST_SECONDS).text
    assert any(
        line.startswith("mm_server_restarts_total{") and line.endswith(" 1.0")
        for line in text.splitlines()
    )
    assert "nv_inference_request_success" in text


@pytest.mark.slow
def test_nothing_outlives_a_killed_supervisor(served: Served, start: Callable[[], Served]) -> None:
    below = psutil.Process(served.process.pid).children(recursive=True)
    served.process.kill()
    served.process.wait()
    for process in below:
        wait_until_gone(process.pid)
    left = regions(served)
    following = start()
    assert following.process.pid != served.process.pid
    assert not set(left) & set(regions(following))
    following.terminate()
    assert following.wait() == 0
    assert regions(following) == []


@pytest.mark.slow
def test_a_server_that_is_killed_while_it_loads_is_started_again(
    random_engine: EngineFiles,
) -> None:
    with start_serving(random_engine.manifest, random_engine.serving) as served:
        _wait_for_log(served, "loading: tensorrt_llm:1")
        kill_server(served)
        _wait_for_log(served, "exit code 137; it is started again in 1 s")
        served.wait_until_ready()
        assert "ended with exit code 137 before it was ready; last lines:" in served.log


@pytest.mark.slow
def test_a_server_that_dies_again_and_again_ends_the_command(random_engine: EngineFiles) -> None:
    with start_serving(random_engine.manifest, random_engine.serving) as served:
        for start in (1, 2, 3):
            served.wait_until_ready(starts=start)
            kill_server(served)
            # Readiness of the next start must not be that of the dead server.
            _wait_for_log(served, "tritonserver ended with exit code 137")
        assert served.wait() == 1
        assert "ended unexpectedly 3 times within 300 s, now with exit code 137" in served.log
        assert regions(served) == []


@pytest.mark.slow
def test_port_in_use_is_said(random_engine: EngineFiles) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        start_serving(
            random_engine.manifest,
            random_engine.serving,
            "--grpc-port",
            str(taken.getsockname()[1]),
        ) as served,
    ):
        assert served.wait() == 1
        assert "before it was ready: UNKNOWN:No address added" in served.log


@cases(
    "damage words",
    {
        "damaged-file": (
            lambda folder: (folder / "llm" / "config.json").write_text("{}"),
            "llm/config.json has 2 bytes; expected",
        ),
        "missing-file": (
            lambda folder: (folder / "vision" / "model.onnx").unlink(),
            "vision/model.onnx is missing",
        ),
        "damaged-manifest": (
            lambda folder: (folder / "manifest.json").write_text("{"),
            "manifest.json is damaged",
        ),
    },
)
def test_damaged_engine_is_refused(
    random_engine: EngineFiles,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], object],
    words: str,
) -> None:
    folder = tmp_path / "engine"
    shutil.copytree(random_engine.manifest.parent, folder)
    damage(folder)
    code = main(
        [
            "serve",
            *("--manifest", str(folder / "manifest.json")),
            *("--serving", str(random_engine.serving)),
            *("--repository", str(tmp_path / "repository")),
            *("--termination-log", str(tmp_path / "message")),
        ]
    )
    assert code == ExitCode.ENGINE_CORRUPT
    assert words in caplog.text
    assert words in (tmp_path / "message").read_text()


def test_another_engines_plan_is_refused(
    random_engine: EngineFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "serving.json"
    other.write_text(serving_plan("f" * 64).to_json())
    manifest = EngineManifest.from_json(random_engine.manifest.read_bytes())
    arguments = ["serve", "--manifest", str(random_engine.manifest), "--serving", str(other)]
    assert main([*arguments, "--repository", str(tmp_path / "repository")]) == 3
    assert manifest.fingerprint[:16] in caplog.text
    assert "f" * 16 in caplog.text


def _wait_for_log(served: Served, words: str) -> None:
    eventually(
        lambda: words in served.log,
        seconds=REQUEST_SECONDS,
        pause_seconds=0.05,
        showing=lambda: served.log,
    )


def _wait_until_taken_up(served: Served, requests: int) -> None:
    def all_are() -> bool:
        page = httpx.get(f"{served.metrics_url}/metrics", timeout=REQUEST_SECONDS).text
        names = (line for line in page.splitlines() if line.startswith(EXECUTING_REQUESTS.name))
        return sum(float(line.rpartition(" ")[2]) for line in names) >= requests

    eventually(all_are, showing=lambda: served.log)
