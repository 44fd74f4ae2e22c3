"""Backend PyTorch: a model name of an adapter becomes the server's `lora_request`.

The recorded server says by whom it answers, so an adapter that it drops is seen.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, NotFoundError

from mm_api.documents.trtllm_serve import TrtllmServe
from mm_runtime.backends import BACKENDS
from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.pytorch.client import TrtllmServeDialect
from mm_runtime.gateway.backends.engine import Servers
from mm_runtime.serving.directory import EngineDirectory
from support.cases import cases
from support.gateways import MODEL, serve, toy_gateway, toy_manifest, toy_serving, write_processor
from support.hollow_checkpoint import write_safetensors
from support.recorded_server import RecordedServer, recorded_server

SECONDS = 60
NAMES = ("french", "legal")
RANK = 8
MODULES = ("attn_q", "attn_v")
CONFIG = {
    "lora_target_modules": [*MODULES],
    "max_lora_rank": RANK,
    "max_loras": len(NAMES),
    "max_cpu_loras": len(NAMES),
}
TENSOR = "base_model.model.language_model.layers.0.self_attn.{module}.lora_{side}.weight"


def write(folder: Path, *, rank: int = RANK, module: str = "q_proj", tail: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank, "lora_alpha": rank}))
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        TENSOR.format(module=module, side=side) + tail: ("F16", shape)
        for side, shape in (("A", (rank, 8)), ("B", (8, rank)))
    }
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engine") / "adapters"
    for name in NAMES:
        write(folder / name)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedServer]:
    options = {"lora_config": CONFIG, "cuda_graph_config": None}
    with recorded_server(tmp_path_factory.mktemp("recorded"), options=options) as server:
        yield server


@pytest.fixture
async def openai(
    tmp_path: Path, server: RecordedServer, folder: Path
) -> AsyncIterator[AsyncOpenAI]:
    """The official client of a gateway before the recorded server."""
    adapters = {uid: folder / name for uid, name in enumerate(NAMES)}
    engine = OpenAiServerEngine(
        server.address, TrtllmServeDialect(MODEL, adapters=adapters), request_seconds=SECONDS
    )
    async with (
        serve(toy_gateway(tmp_path, engine, adapters=NAMES)) as running,
        AsyncOpenAI(
            base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=SECONDS
        ) as client,
    ):
        yield client
    await engine.close()


def body(model: str) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "what is it ?"}]}


async def test_adapters_are_listed_as_models(openai: AsyncOpenAI) -> None:
    assert [one.id async for one in openai.models.list()] == [MODEL, *NAMES]


@pytest.mark.parametrize("streams", [False, True], ids=["at-once", "stream"])
@cases(
    "model place",
    {"first": ("french", 0), "second": ("legal", 1), "model-and-name": (f"{MODEL}:legal", 1)},
)
async def test_a_name_is_answered_by_its_adapter(
    openai: AsyncOpenAI,
    server: RecordedServer,
    folder: Path,
    model: str,
    place: int,
    *,
    streams: bool,
) -> None:
    """The server is given name, a number from 1 and the folder; the client sees its own name."""
    name = NAMES[place]
    if streams:
        stream = await openai.chat.completions.create(**body(model), stream=True)
        chunks = [chunk async for chunk in stream]
        text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
        models = {chunk.model for chunk in chunks}
    else:
        answer = await openai.chat.completions.create(**body(model))
        text, models = answer.choices[0].message.content or "", {answer.model}
    assert text == f"A recorded answer by {name} about 0 images."
    assert models == {model}
    assert server.requested[-1]["lora_request"] == {
        "lora_name": name,
        "lora_int_id": place + 1,
        "lora_path": str(folder / name),
    }


async def test_the_model_itself_has_no_adapter(openai: AsyncOpenAI, server: RecordedServer) -> None:
    await openai.chat.completions.create(**body("french"))
    answer = await openai.chat.completions.create(**body(MODEL))
    assert answer.choices[0].message.content == "A recorded answer about 0 images."
    assert "lora_request" not in server.requested[-1]


async def test_an_unknown_name_never_reaches_the_server(
    openai: AsyncOpenAI, server: RecordedServer
) -> None:
    """The server would read any folder that it is named."""
    before = len(server.requested)
    with pytest.raises(NotFoundError):
        await openai.chat.completions.create(**body("german"))
    assert len(server.requested) == before


def queried(server: RecordedServer, adapter: Mapping[str, object]) -> tuple[int, str]:
    """Return the server's status and its text or message, for a request of this `lora_request`."""
    answer = httpx.post(
        f"http://{server.address}/v1/chat/completions",
        json={**body(MODEL), "lora_request": adapter},
        timeout=SECONDS,
    )
    found = answer.json()
    text = found["choices"][0]["message"]["content"] if answer.is_success else found["message"]
    return answer.status_code, text


@cases(
    "made message",
    {
        "no-folder": (None, "does not exist"),
        "rank": (
            {"rank": RANK + 1},
            "Invalid low_rank (9). low_rank must be smaller than mMaxLowRank (8)",
        ),
        "module": ({"module": "fc1"}, "hf_module fc1 is not in supported list"),
        "name-of-a-tensor": ({"tail": ".default"}, "unsupported key"),
    },
)
def test_the_recorded_server_refuses_what_upstream_refuses(
    server: RecordedServer, tmp_path: Path, made: dict[str, Any] | None, message: str
) -> None:
    path = tmp_path / "other" if made is None else write(tmp_path / "other", **made)
    status, text = queried(server, {"lora_name": "other", "lora_int_id": 7, "lora_path": str(path)})
    assert (status, message in text) == (400, True), text


def test_a_server_without_room_drops_adapters(tmp_path: Path, folder: Path) -> None:
    """As upstream, without an error: the answer is the checkpoint's."""
    adapter = {"lora_name": "french", "lora_int_id": 1, "lora_path": str(folder / "french")}
    with recorded_server(tmp_path) as server:
        assert queried(server, adapter) == (200, "A recorded answer about 0 images.")


@pytest.mark.parametrize("applies", [True, False], ids=["room", "no-room"])
async def test_a_gateway_before_a_server_without_room_does_not_start(
    tmp_path: Path, *, applies: bool
) -> None:
    """A plan of another version of the operator: no client gets answers of other weights."""
    plan = TrtllmServe(
        version="1.1.0",
        checkpoint=f"models/{MODEL}",
        port=1,
        argv=["trtllm-serve"],
        options_file="serve.yaml",
        options={"lora_config": CONFIG} if applies else {},
    )
    serving = toy_serving().model_copy(update={"backend": "PyTorch", "trtllm_serve": plan})
    directory = EngineDirectory(tmp_path, toy_manifest(NAMES))
    write_processor(tmp_path)
    if applies:
        await BACKENDS[serving.backend].open_engine(directory, serving, Servers()).close()
        return
    with pytest.raises(ValueError, match="LoRA adapters and the serving plan no lora_config"):
        BACKENDS[serving.backend].open_engine(directory, serving, Servers())
