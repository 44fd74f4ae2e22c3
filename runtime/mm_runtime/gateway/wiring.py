"""Manifest and serving plan -> the gateway's objects, connected."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_api.families import FAMILIES
from mm_api.gateway_memory import (
    DECODERS,
    KNOWN_IMAGE_BYTES,
    body_bytes,
    decoder_bytes,
    largest_body_bytes,
)
from mm_edge.auth import BearerAuth
from mm_edge.body import UploadLimits
from mm_edge.body_budget import BodyBudget
from mm_edge.drain import Drain
from mm_edge.key_limits import KeyLimits
from mm_edge.tracing import open_tracer
from mm_runtime.gateway.admission.fetching import Fetching
from mm_runtime.gateway.admission.slots import Admission
from mm_runtime.gateway.admission.tokens import ContextLimits
from mm_runtime.gateway.api.audio import TRANSCRIBE, TRANSLATE
from mm_runtime.gateway.api.parameters import PARAMETERS
from mm_runtime.gateway.api.parsing import (
    parse_chat,
    parse_completion,
    parse_response,
    parse_transcription,
    parse_translation,
)
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.backends.backend import GatewayBackend
from mm_runtime.gateway.backends.engine import Engine, Scorer
from mm_runtime.gateway.dataplane import ChatService
from mm_runtime.gateway.http.exchange import Endpoint, ExchangeLimits
from mm_runtime.gateway.http.openapi import refused_paths
from mm_runtime.gateway.http.routes import Routes, build_app
from mm_runtime.gateway.media.audio_reader import AudioReader
from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.gateway.media.image_cache import DecodedImageCache
from mm_runtime.gateway.media.images import ImageLoader
from mm_runtime.gateway.metrics import GatewayMetrics
from mm_runtime.gateway.preparation import Preparation
from mm_runtime.gateway.prompts.layout import PromptLayout
from mm_runtime.gateway.prompts.loading import load_chat_prompt
from mm_runtime.gateway.server_metrics import NO_SERVER, ServerMetrics
from mm_runtime.gateway.warmup.evaluation import read_comparison
from mm_runtime.gateway.warmup.quiet import Quiet
from mm_runtime.gateway.warmup.warm_up import WarmUp
from mm_runtime.gateway.warmup.work import WorkBenchmark
from mm_runtime.images.fetch import FetchPolicy, ImageFetcher
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.geometry.rotation import reads_times
from mm_runtime.serving.preprocess.audio.prefixes import Prefixes, accepts_audio, load_spectrogram
from mm_runtime.serving.preprocess.media import MediaLimits
from mm_runtime.serving.preprocess.processors import load_processor
from mm_runtime.serving.prompts.questions import load_questions
from mm_runtime.serving.prompts.starts import decoder_start
from mm_runtime.serving.prompts.tokens import TextCodec

_BODY_TIMEOUT_SECONDS = 60.0
"""For the body of one request: 20 MB at 3 Mbit/s. It ends clients that hold a place and send
nothing."""


_DECODE_SECONDS = 60.0
"""Limit of one file, however busy the machine is; processor time is bounded for each kind of
file."""

_WRITERS = 4
"""Prompts written at one time: a slow template takes 5 s, and the loop waits 5 ms for each."""

_PARSERS = 2
"""Large bodies parsed at one time, each in up to 0.1 s."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A connected gateway."""

    app: Starlette
    warm_up: WarmUp
    work: WorkBenchmark
    drain: Drain
    admission: Admission
    metrics: GatewayMetrics
    decoders: Decoders
    bodies: BodyBudget
    request_timeout_seconds: float
    tracer: Any

    async def measure_work(self) -> None:
        await self.warm_up.first_ready()
        await self.work.run()

    def close(self) -> None:
        """End the processes that decode, send the last spans; no request is inside any more."""
        self.decoders.close()
        if self.tracer is not None:
            self.tracer.close()


def build_gateway(
    *,
    manifest: EngineManifest,
    serving: ServingPlan,
    engine_dir: Path,
    engine: Engine,
    backend: GatewayBackend,
    auth_token_file: Path | None,
    server_metrics: ServerMetrics = NO_SERVER,
) -> Gateway:
    """Connect everything for one model; without a file of tokens it admits every client.

    Raises:
        OSError, KeyError, ValueError: a file of the processor is missing or unusable.
    """
    plan, capabilities = serving.gateway, backend.capabilities(manifest, serving)
    directory = EngineDirectory(engine_dir, manifest)
    codec = TextCodec(directory.tokenizer)
    chat_prompt, by_server = None, capabilities.writes_prompts
    if not directory.facts.encoder:
        chat_prompt = load_chat_prompt(directory, codec, written_by_server=by_server)
    known = _served_model(directory, serving, chat_prompt.dialect if chat_prompt else None)
    model = replace(known, calls_missing=capabilities.calls_missing)
    metrics, unseen = GatewayMetrics(model.name), GatewayMetrics(model.name)
    admission = Admission(
        max_concurrency=plan.max_concurrency,
        max_queue_size=plan.max_queue_size,
        max_queue_tokens=plan.max_queue_tokens,
        clock=time.monotonic,
    )
    admission.load.observers.append(metrics.observe_load)
    image_processor = load_processor(
        directory,
        frames_there=capabilities.reads_files and plan.max_video_frames > 0,
        resized_there=capabilities.reads_files,
    )
    bodies = BodyBudget(body_bytes(plan))
    decoders = Decoders(
        DECODERS,
        DecoderLimits(decoder_bytes(plan), wall_seconds=_DECODE_SECONDS),
    )
    images = ImageLoader(
        fetcher=ImageFetcher(FetchPolicy.of(plan)),
        limits=MediaLimits(max_bytes=plan.max_image_bytes, max_pixels=plan.max_image_pixels),
        # A plan that pays memory for features of known images keeps their pixels too.
        known=DecodedImageCache(KNOWN_IMAGE_BYTES if serving.feature_cache_bytes else 0),
        decoders=decoders,
        bodies=bodies,
        reads_times=reads_times(directory.facts),
        keeps_files=capabilities.reads_files,
    )
    questions = load_questions(directory, codec)
    preparation = Preparation(
        model=model,
        images=images,
        layout=PromptLayout(questions, image_processor),
        chat_prompt=chat_prompt,
        audio_reader=AudioReader(
            Prefixes.load(directory, codec),
            load_spectrogram(directory),
            decoders,
            may_detect=capabilities.times_audio and isinstance(engine, Scorer),
            may_time=capabilities.times_audio,
            is_cut_there=capabilities.cuts_audio,
        )
        if accepts_audio(directory)
        else None,
        forms=capabilities.forms,
        isolates_salts=capabilities.isolates_salts,
        writer=ThreadPoolExecutor(_WRITERS, thread_name_prefix="prompt"),
    )
    service = ChatService(preparation, engine, admission)
    quiet = Quiet(admission.load)
    # Not the engine's queue as well: clients that come meanwhile would be refused.
    together = min(plan.max_concurrency, directory.limits.max_batch_size)
    work = WorkBenchmark(service, metrics, slots=together, quiet=quiet)
    warm_up = WarmUp(
        service,
        metrics,
        most_pixels=plan.max_image_pixels,
        request_seconds=plan.request_timeout_seconds,
        comparison=read_comparison(engine_dir, manifest),
        question=chat_prompt.question if chat_prompt and not capabilities.wraps_questions else None,
    )
    drain = Drain()
    key_limits = KeyLimits(plan.key_limits or (), time.monotonic)
    auth = BearerAuth(auth_token_file, (key_limits.keep, metrics.keep_keys))
    takes_audio = preparation.accepts_audio or model.audio is not None
    one_file = int(plan.max_video_frames > 0 or takes_audio)
    limits = ExchangeLimits(
        max_body_bytes=largest_body_bytes(
            files=max(plan.max_images_per_request, one_file), file_bytes=plan.max_image_bytes
        ),
        upload=UploadLimits(min(_BODY_TIMEOUT_SECONDS, plan.request_timeout_seconds)),
        request_timeout_seconds=plan.request_timeout_seconds,
        keep_alive_seconds=plan.keep_alive_seconds,
    )
    parser = ThreadPoolExecutor(_PARSERS, thread_name_prefix="parse")
    fetching = Fetching(admission.capacity)
    endpoints = {
        path: Endpoint(
            service=service,
            metrics=metrics,
            unseen=unseen,
            auth=auth,
            key_limits=key_limits,
            drain=drain,
            limits=limits,
            bodies=bodies,
            fetching=fetching,
            parse=parse,
            parser=parser,
        )
        for path, parse in (
            ("/v1/chat/completions", parse_chat),
            ("/v1/completions", parse_completion),
            ("/v1/responses", parse_response),
            ("/v1/audio/transcriptions", parse_transcription),
            ("/v1/audio/translations", parse_translation),
        )
    }
    routes = Routes(
        model=model,
        metrics=metrics,
        auth=auth,
        drain=drain,
        state=warm_up.state,
        warm_up_problem=lambda: warm_up.problem,
        evaluation=lambda: warm_up.evaluation,
        server_metrics=server_metrics,
        refused=_refused_paths(preparation),
    )
    return Gateway(
        app=build_app(routes, endpoints),
        warm_up=warm_up,
        work=work,
        drain=drain,
        admission=admission,
        metrics=metrics,
        decoders=decoders,
        bodies=bodies,
        request_timeout_seconds=plan.request_timeout_seconds,
        tracer=open_tracer("multimodal-gateway", partial(metrics.count, "mm_spans_dropped_total")),
    )


def _refused_paths(preparation: Preparation) -> frozenset[str]:
    reader, backend = preparation.audio_reader, preparation.model.backend
    known = filter(reader.prefixes.knows, (TRANSCRIBE, TRANSLATE)) if reader is not None else ()
    texts = reader is None
    return refused_paths(
        chats=texts and preparation.chats,
        continues=texts and backend in PARAMETERS["prompt"].acts,
        tasks=tuple(known),
    )


def _served_model(
    directory: EngineDirectory, serving: ServingPlan, dialect: ToolDialect | None
) -> ServedModel:
    limits, sees = directory.limits, directory.sees
    encoder = directory.facts.encoder is not None
    generation = directory.generation
    sampled = bool(generation.get("do_sample"))
    return ServedModel(
        name=serving.model,
        backend=serving.backend,
        family=FAMILIES[directory.facts.family].title,
        vocabulary_size=directory.facts.text.vocabulary_size,
        created=int(directory.manifest.created.timestamp()),
        fingerprint=serving.fingerprint,
        limits=ContextLimits(
            max_input_len=(limits.max_encoder_input_len or limits.max_input_len)
            if encoder and not accepts_audio(directory)
            else limits.max_input_len,
            max_seq_len=limits.max_seq_len,
            decoder_tokens=len(decoder_start(directory.configs)) if encoder else None,
        ),
        max_images=serving.gateway.max_images_per_request if sees else 0,
        max_video_frames=serving.gateway.max_video_frames if sees else 0,
        max_features=limits.max_multimodal_len // limits.max_batch_size
        if FAMILIES[directory.facts.family].layout.counts_rows
        else None,
        audio=directory.facts.audio,
        transcribes=accepts_audio(directory),
        audio_features=FAMILIES[directory.facts.family].audio_features or (lambda _: 0),
        temperature=float(generation.get("temperature") or 1.0) if sampled else 0.0,
        top_p=float(generation.get("top_p") or 1.0),
        adapters={one.name: one.uid for one in directory.manifest.plan.adapters},
        dialect=dialect,
    )
