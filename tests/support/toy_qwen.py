"""A toy Qwen2-VL behind a recorded trtllm-serve: its engine, and a client of its gateway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from mm_api.documents.engine_manifest import EngineManifest
from mm_runtime.backends import BACKENDS
from mm_runtime.gateway.backends.engine import Servers
from mm_runtime.serving.directory import EngineDirectory
from support.gateways import (
    client_of,
    toy_gateway,
    toy_manifest,
    toy_serving,
    write_processor,
)
from support.model_configs import facts_of, planned_on_pytorch
from support.recorded_server import RecordedServer

FAMILY = "qwen2-vl"
SECONDS = 60
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }} {% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %} {% endfor %}ASSISTANT:"
)
SPECIAL = ("<unk>", "<s>", "</s>", "<|image_pad|>", "<|video_pad|>", "<|im_start|>")


def manifest() -> EngineManifest:
    toy, vision = toy_manifest(), facts_of(FAMILY).vision
    facts = toy.plan.facts.model_copy(update={"family": FAMILY, "vision": vision})
    assert toy.plan.engine.vision
    shown = toy.plan.engine.vision.model_copy(update={"features_per_image": 64})
    engine = toy.plan.engine.model_copy(update={"family": FAMILY, "vision": shown})
    limits = engine.limits.model_copy(update={"max_multimodal_len": 1024})
    engine = engine.model_copy(update={"limits": limits})
    return toy.model_copy(
        update={"plan": toy.plan.model_copy(update={"facts": facts, "engine": engine})}
    )


@asynccontextmanager
async def toy_qwen_client(
    folder: Path, server: RecordedServer, version: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Connect gateway and server as a pod's documents say, but for the server's address."""
    plan = planned_on_pytorch(FAMILY, version).serve
    assert plan
    serving = toy_serving().model_copy(update={"backend": "PyTorch", "trtllm_serve": plan})
    write_processor(folder / "engine", TEMPLATE, SPECIAL)
    directory = EngineDirectory(folder / "engine", manifest())
    servers = Servers(openai=server.address)
    engine = BACKENDS[serving.backend].open_engine(directory, serving, servers)
    gateway = toy_gateway(
        folder / "gateway",
        engine,
        template=TEMPLATE,
        special=SPECIAL,
        trtllm_serve=plan,
        manifest=manifest(),
    )
    async with client_of(gateway) as client:
        yield client
    await engine.close()
