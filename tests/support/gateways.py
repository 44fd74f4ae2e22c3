"""Gateways for tests: a toy model's processor files and documents, a server on a free port."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import httpx
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from mm_api.documents.build_plan import BuildPlan, EngineLimits, EngineSpec, VisionPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.model_facts import ModelFacts, TextFacts, VisionFacts
from mm_api.documents.serving_plan import GatewayPlan, MemoryPools, ServingPlan
from mm_api.documents.trtllm_serve import TrtllmServe
from mm_edge.connection import ConnectionLimits
from mm_edge.server import EdgeServer
from mm_runtime.backends import BACKENDS
from mm_runtime.backends.openai_server import client
from mm_runtime.backends.triton_server import engine as triton
from mm_runtime.gateway import server_metrics
from mm_runtime.gateway.backends.engine import Engine
from mm_runtime.gateway.http import reply
from mm_runtime.gateway.main import build_server
from mm_runtime.gateway.wiring import Gateway, build_gateway
from support.eventually import eventually_async
from support.kept_decoders import KeptDecoders

# Beside a pause of this process, which is its own client, no one is gone.
triton._PROBE_SECONDS = client._PROBE_SECONDS = client._CONNECT_SECONDS = 60.0
reply._STALLED_SECONDS = server_metrics._SECONDS = 60.0

MODEL = "toy"
FINGERPRINT = "ab" * 32
FEATURES = 16
MAX_INPUT = 256
MAX_SEQUENCE = 320

TEMPLATE = (
    "{% for message in messages %}{{ message.role | upper }}: "
    "{% for part in message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{{ '\\n' }}{% endfor %}ASSISTANT:"
)
"""Keeps the order of parts, so that tests see where images went."""

_SPECIAL = ("<unk>", "<s>", "</s>", "<image>")


def write_processor(
    engine_dir: Path, template: str = TEMPLATE, special: Sequence[str] = _SPECIAL
) -> None:
    folder = engine_dir / "processor"
    folder.mkdir(parents=True)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(special)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(list(special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "<unk>"},
    )
    _write_json(
        folder / "preprocessor_config.json",
        {
            "size": {"shortest_edge": 56},
            "crop_size": {"height": 56, "width": 56},
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
        },
    )
    (folder / "chat_template.jinja").write_text(template)


def toy_manifest(adapters: Sequence[str] = ()) -> EngineManifest:
    """Return the toy model's manifest; `adapters` are names of LoRA adapters."""
    digest = "sha256:" + "0" * 64
    engine = EngineSpec(
        source_digest=digest,
        family="llava",
        backend="Reference",
        dtype="float32",
        limits=EngineLimits(
            max_batch_size=4,
            max_input_len=MAX_INPUT,
            max_seq_len=MAX_SEQUENCE,
            max_num_tokens=1024,
            max_beam_width=1,
            max_images_per_request=4,
            max_multimodal_len=4 * 4 * FEATURES,
        ),
        vision=VisionPlan(
            engine="ONNXRuntime",
            image_size=56,
            features_per_image=FEATURES,
            max_batch_size=4,
            opset=18,
            tolerance=1e-3,
        ),
        builder_version="1",
    )
    return EngineManifest(
        fingerprint=FINGERPRINT,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        plan=BuildPlan(
            fingerprint=FINGERPRINT,
            engine=engine,
            facts=_toy_facts(digest),
            lora=[
                LoraAdapter(name=name, uid=uid, source="/adapters")
                for uid, name in enumerate(adapters)
            ],
        ),
        files=[],
        steps=[],
        versions={},
    )


def toy_serving(**changes: object) -> ServingPlan:
    """Return the toy model's serving plan; `changes` replace fields of its gateway plan."""
    gateway = GatewayPlan(
        max_concurrency=2,
        max_queue_size=1,
        max_image_bytes=200_000,
        max_image_pixels=4_000_000,
        max_images_per_request=4,
        fetch_timeout_seconds=60,
        request_timeout_seconds=60,
    )
    return ServingPlan(
        model=MODEL,
        fingerprint=FINGERPRINT,
        backend="Reference",
        pools=MemoryPools(cuda_bytes=0, pinned_bytes=0, shm_bytes=0),
        max_queue_size=4,
        gateway=gateway.model_copy(update=changes),
    )


def toy_gateway(
    directory: Path,
    engine: Engine,
    *,
    auth_token_file: Path | None = None,
    adapters: Sequence[str] = (),
    template: str = TEMPLATE,
    special: Sequence[str] = _SPECIAL,
    files: Mapping[str, object] | None = None,
    trtllm_serve: TrtllmServe | None = None,
    manifest: EngineManifest | None = None,
    **changes: object,
) -> Gateway:
    """Return a connected gateway of the toy model, or of a manifest, in front of any engine.

    `files` are more of its processor, by name.

    Its decoders are those of the gateways before it; see `support.kept_decoders`.
    """
    write_processor(directory, template, special)
    for name, content in (files or {}).items():
        _write_json(directory / "processor" / name, content)
    serving = toy_serving(**changes)
    if trtllm_serve is not None:
        served = {"backend": "PyTorch", "trtllm_serve": trtllm_serve}
        serving = serving.model_copy(update=served)
    with patch("mm_runtime.gateway.wiring.Decoders", KeptDecoders):
        return build_gateway(
            manifest=manifest or toy_manifest(adapters),
            serving=serving,
            engine_dir=directory,
            engine=engine,
            backend=BACKENDS[serving.backend],
            auth_token_file=auth_token_file,
        )


@dataclass(frozen=True)
class Running:
    """A gateway that listens."""

    url: str
    port: int
    gateway: Gateway
    server: EdgeServer


@asynccontextmanager
async def serve(
    gateway: Gateway,
    limits: ConnectionLimits | None = None,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[Running]:
    server = build_server(gateway, address, port, limits)
    task = asyncio.create_task(server.serve())
    try:
        await eventually_async(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Running(f"http://{address}:{port}", port, gateway, server)
    finally:
        server.should_exit = True
        server.force_exit = True
        async with asyncio.timeout(60):
            await task
        gateway.close()


@asynccontextmanager
async def client_of(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serve(gateway) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        yield client


def _toy_facts(digest: str) -> ModelFacts:
    return ModelFacts(
        family="llava",
        architecture="LlavaForConditionalGeneration",
        dtype="float32",
        source_digest=digest,
        weight_format="safetensors",
        weight_bytes=1,
        parameters=1,
        custom_code=False,
        image_token_id=3,
        text=TextFacts(
            hidden_size=8,
            intermediate_size=8,
            layers=1,
            attention_heads=1,
            key_value_heads=1,
            head_size=8,
            vocabulary_size=4,
            max_position_embeddings=MAX_SEQUENCE,
        ),
        vision=VisionFacts(
            hidden_size=8,
            layers=1,
            image_size=56,
            patch_size=14,
            features_per_image=FEATURES,
            feature_layer=-1,
            feature_select="default",
        ),
    )


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))
