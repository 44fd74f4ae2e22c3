"""Manifest and serving plan -> the gateway's objects, connected."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from starlette.applications import Starlette

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.engine.preprocess import ImagePreprocessor
from mm_runtime.engine.tokens import TextCodec
from mm_runtime.gateway.admission import Admission
from mm_runtime.gateway.auth import BearerAuth
from mm_runtime.gateway.body import max_body_bytes
from mm_runtime.gateway.dataplane import ChatService, ServedModel
from mm_runtime.gateway.drain import Drain
from mm_runtime.gateway.engine import Engine
from mm_runtime.gateway.exchange import ChatEndpoint, ExchangeLimits
from mm_runtime.gateway.fetch import FetchPolicy, ImageFetcher
from mm_runtime.gateway.http import Routes, build_app
from mm_runtime.gateway.images import ImageLimits, ImageLoader
from mm_runtime.gateway.media import ImageGeometry
from mm_runtime.gateway.metrics import GatewayMetrics
from mm_runtime.gateway.preflight import Preflight
from mm_runtime.gateway.templates import load_template
from mm_runtime.gateway.tokens import ContextLimits

_BODY_TIMEOUT_SECONDS = 60.0
"""For the body of one request: 20 MB at 3 Mbit/s. It ends clients that hold a place and send
nothing."""


_BODY_MEMORY_BYTES = 512 * 1024 * 1024
"""For all bodies that are read or prepared at one time: about twenty with the largest image."""

_DECODERS = 2
"""Images decoded at one time: one of 50 million pixels takes up to half a gigabyte meanwhile, and
two threads decode about a hundred camera pictures a second."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A connected gateway."""

    app: Starlette
    preflight: Preflight
    drain: Drain
    admission: Admission
    metrics: GatewayMetrics
    request_timeout_seconds: float


def build_gateway(
    *,
    manifest: EngineManifest,
    serving: ServingPlan,
    engine_dir: Path,
    engine: Engine,
    auth_token_file: Path | None,
) -> Gateway:
    """Connect everything for one model.

    Args:
        manifest: of the engine.
        serving: limits of this model's pods.
        engine_dir: directory of the manifest; `processor/` lies in it.
        engine: where prompts go.
        auth_token_file: bearer tokens, one a line; None lets everybody in.

    Raises:
        OSError, KeyError, ValueError: a file of the processor is missing or unusable.
    """
    plan = serving.gateway
    processor = engine_dir / "processor"
    model = _served_model(manifest, serving, engine_dir)
    metrics = GatewayMetrics(model.name)
    admission = Admission(
        max_concurrency=plan.max_concurrency,
        max_queue_size=plan.max_queue_size,
        clock=time.monotonic,
    )
    admission.load.observers.append(metrics.observe_load)
    vision = manifest.plan.engine.vision
    images = ImageLoader(
        fetcher=ImageFetcher(
            FetchPolicy(
                allowed_hosts=tuple(plan.allowed_hosts),
                allow_private_networks=plan.allow_private_networks,
                timeout_seconds=plan.fetch_timeout_seconds,
                max_bytes=plan.max_image_bytes,
            )
        ),
        limits=ImageLimits(max_bytes=plan.max_image_bytes, max_pixels=plan.max_image_pixels),
        geometry=_read_geometry(processor)
        if vision
        else ImageGeometry(1, Image.Resampling.BICUBIC),
        executor=ThreadPoolExecutor(_DECODERS, thread_name_prefix="decode"),
    )
    service = ChatService(
        model=model,
        engine=engine,
        admission=admission,
        images=images,
        template=load_template(processor),
        codec=TextCodec(processor),
    )
    preflight = Preflight(service)
    drain = Drain()
    auth = BearerAuth(auth_token_file)
    chat = ChatEndpoint(
        service=service,
        metrics=metrics,
        auth=auth,
        drain=drain,
        limits=ExchangeLimits(
            max_body_bytes=max_body_bytes(
                images=plan.max_images_per_request, image_bytes=plan.max_image_bytes
            ),
            body_memory_bytes=_BODY_MEMORY_BYTES,
            body_timeout_seconds=min(_BODY_TIMEOUT_SECONDS, plan.request_timeout_seconds),
            request_timeout_seconds=plan.request_timeout_seconds,
        ),
    )
    routes = Routes(
        model=model, metrics=metrics, auth=auth, drain=drain, is_ready=preflight.is_ready
    )
    return Gateway(
        app=build_app(routes, chat),
        preflight=preflight,
        drain=drain,
        admission=admission,
        metrics=metrics,
        request_timeout_seconds=plan.request_timeout_seconds,
    )


def _served_model(manifest: EngineManifest, serving: ServingPlan, engine_dir: Path) -> ServedModel:
    limits = manifest.plan.engine.limits
    vision = manifest.plan.engine.vision
    generation = _read_json(engine_dir / "llm" / "generation_config.json")
    sampled = bool(generation.get("do_sample"))
    return ServedModel(
        name=serving.model,
        created=int(manifest.created.timestamp()),
        fingerprint=serving.fingerprint,
        limits=ContextLimits(
            max_input_len=limits.max_input_len,
            max_seq_len=limits.max_seq_len,
            features_per_image=0 if vision is None else vision.features_per_image,
        ),
        max_images=0 if vision is None else serving.gateway.max_images_per_request,
        temperature=float(generation.get("temperature") or 1.0) if sampled else 0.0,
        top_p=float(generation.get("top_p") or 1.0),
    )


def _read_geometry(processor: Path) -> ImageGeometry:
    """Return how the checkpoint resizes. What it cuts off then, the preprocessing model cuts."""
    preprocessor = ImagePreprocessor.from_folder(processor)
    return ImageGeometry(preprocessor.shortest_edge, preprocessor.resample)


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}
