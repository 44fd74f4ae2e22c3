"""A running tritonserver: who reaches it, and what it lets those do who reach it."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from mm_edge.errors import InvalidRequestError
from mm_runtime.backends.triton_server.engine import TritonEngine
from mm_runtime.base.grpc_channel import ENCODER_KEY, GRPC_KEY_PREFIX
from mm_runtime.gateway.backends.engine import EngineRequest, Sampling
from mm_runtime.serving.encode.disaggregated.client import MODEL
from support.encoder_pairs import KEY, disaggregated
from support.served import Served, start_serving
from support.tiny_llava import BuiltEngine

pytestmark = pytest.mark.triton

LOOPBACK, EVERYWHERE = "0100007F", "00000000"
"""As /proc/net/tcp writes 127.0.0.1 and 0.0.0.0."""

EVERYWHERE_6 = "0" * 32
"""As /proc/net/tcp6 writes [::], where the machine has IPv6."""

MAPPED = "0000000000000000FFFF00000100007F"
"""As /proc/net/tcp6 writes ::ffff:127.0.0.1, which gRPC makes of the former."""

LISTENS = "0A"
CONNECTIONS, REQUESTS = 6, 40

CLOSED = (
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/preprocessing/unload"),
    ("GET", "/v2/systemsharedmemory/status"),
    ("POST", "/v2/systemsharedmemory/region/a/register"),
    ("GET", "/v2/trace/setting"),
    ("POST", "/v2/logging"),
    ("GET", "/v2/models/stats"),
)


def _listening(pid: int) -> dict[int, set[str]]:
    """Return port -> addresses of the sockets of a process that accept connections."""
    own = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(str(descriptor.readlink()))
        except FileNotFoundError:
            continue
    found: dict[int, set[str]] = {}
    tables = (Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    for line in (line for table in tables for line in table.splitlines()[1:]):
        _, local, _, state, *rest = line.split()
        if state == LISTENS and f"socket:[{rest[5]}]" in own:
            address, port = local.split(":")
            found.setdefault(int(port, 16), set()).add(address)
    return found


def test_only_the_page_is_reached_from_outside(served: Served) -> None:
    """With a pod's arguments Triton listens on loopback, the supervisor's page everywhere."""
    tritons = _listening(served.server_pid)
    assert {served.http, served.grpc} <= tritons.keys()
    assert set().union(*tritons.values()) <= {LOOPBACK, MAPPED}
    ((port, addresses),) = _listening(served.process.pid).items()
    assert port == served.metrics
    assert {EVERYWHERE} <= addresses <= {EVERYWHERE, EVERYWHERE_6}
    for page in ("/health/ready", "/health/live", "/metrics", "/state"):
        assert httpx.get(f"{served.metrics_url}{page}", timeout=30).status_code == 200, page


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_no_client_changes_the_server(served: Served, method: str, path: str) -> None:
    """What changes the server, or reports others, is closed over HTTP."""
    answer = httpx.request(method, f"{served.http_url}{path}", json={}, timeout=30)
    assert (answer.status_code, "restricted" in answer.text) == (403, True)


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param(lambda client: client.get_model_repository_index(), id="repository"),
        pytest.param(lambda client: client.get_system_shared_memory_status(), id="memory"),
        pytest.param(lambda client: client.get_trace_settings(), id="trace"),
        pytest.param(lambda client: client.update_log_settings({}), id="logging"),
        pytest.param(lambda client: client.get_inference_statistics(), id="statistics"),
    ],
)
def test_no_client_changes_the_server_over_grpc(served: Served, requests: Any) -> None:
    with InferenceServerClient(served.grpc_url) as client:
        assert client.is_server_ready(client_timeout=30)
        assert client.get_model_metadata("ensemble", client_timeout=30).name == "ensemble"
        with pytest.raises(InferenceServerException, match="mm-closed"):
            requests(client)


def test_encoders_answer_their_servers_only(built_engine: BuiltEngine, tmp_path: Path) -> None:
    """Without the key of the model an encoder refuses, before its model sees the request."""
    encoding = disaggregated(built_engine, tmp_path, "127.0.0.1:1")
    with start_serving(built_engine.manifest, encoding, "--role", "encoder") as encoder:
        encoder.wait_until_ready()
        answers = {}
        for name, key in (("none", ""), ("wrong", "another"), ("right", KEY)):
            headers = {f"{GRPC_KEY_PREFIX}{ENCODER_KEY}": key} if key else None
            with InferenceServerClient(encoder.grpc_url) as client:
                with pytest.raises(InferenceServerException) as refused:
                    client.infer(MODEL, [], headers=headers, client_timeout=30)
                answers[name] = str(refused.value.message())
    assert "mm-encoder" in answers["none"]
    assert "mm-encoder" in answers["wrong"]
    assert "mm-encoder" not in answers["right"], "only the missing tensors are wrong"


async def test_the_gateways_way_ends_no_server(served: Served) -> None:
    """Refused, answered and abandoned requests mixed on six connections leave tritonserver alive.

    What ends Triton 2.51 is a stream that mixes refused requests with calls of inner models; the
    gateway has a stream for each request, and queries the ensemble only.
    """
    pid, ended = served.server_pid, served.log.count("tritonserver ended")
    engines = [TritonEngine(served.grpc_url, str) for _ in range(CONNECTIONS)]
    numbers = iter(range(CONNECTIONS * REQUESTS))

    async def query(engine: TritonEngine) -> None:
        for number in numbers:
            prompt = ("<image> what?", "Hello!", "<image>" * 3)[number % 3]
            pieces = engine.generate(_request(number, prompt))
            try:
                async for _ in pieces:
                    if number % 2:
                        break
            except InvalidRequestError:
                assert "<image>" in prompt
            finally:
                await pieces.aclose()

    try:
        await asyncio.gather(*(query(engine) for engine in engines))
        answer = [piece async for piece in engines[0].generate(_request(-1, "Hello!"))]
    except grpc.aio.AioRpcError as error:
        pytest.fail(f"the server went: {error}")
    finally:
        for engine in engines:
            await engine.close()
    assert answer
    assert (pid, ended) == (served.server_pid, served.log.count("tritonserver ended"))


def _request(number: int, prompt: str) -> EngineRequest:
    return EngineRequest(
        request_id=f"mixed-{number}",
        prompt=prompt,
        max_tokens=8,
        sampling=Sampling(
            temperature=0, top_p=1, presence_penalty=None, frequency_penalty=None, seed=0
        ),
    )
