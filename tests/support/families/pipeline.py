"""The entire way of one request without a server: build, preprocess, encode, generate."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mm_api.documents.build_plan import BuildPlan, EngineLimits, EngineSpec, VisionBuild, VisionPlan
from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from mm_api.families.family import Kind
from mm_api.v1alpha1.vision import VisionEngine
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands.build_vision import build_vision
from mm_runtime.engine_build.commands.evaluation import keep_evaluation
from mm_runtime.engine_build.commands.export_vision import export_vision
from mm_runtime.engine_build.commands.fetch import fetch
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.engine_build.commands.verify_vision import verify_vision
from mm_runtime.engine_build.commands.verify_weights import verify_weights
from mm_runtime.engine_build.seal import seal
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.reference_engine.load import LoadedEngine, load_engine
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.features import RequestEncoder
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.generate.generation import read_request
from mm_runtime.serving.generate.request import Request
from mm_runtime.serving.preprocess.preprocessing import Preprocessor
from support.build_plans import serving_plan
from support.collecting_sink import CollectingSink

BATCH = 4
IMAGES = 2
ENCODER_INPUT = 64
ENCODER_OUTPUTS = {
    "OUT_PROMPT_EMBEDDING_TABLE": "prompt_embedding_table",
    "OUT_PROMPT_VOCAB_SIZE": "prompt_vocab_size",
    "ENCODER_INPUT_FEATURES": "encoder_input_features",
    "ENCODER_OUTPUT_LENGTHS": "encoder_output_lengths",
    "CROSS_ATTENTION_MASK": "cross_attention_mask",
    "SKIP_CROSS_ATTN_BLOCKS": "skip_cross_attn_blocks",
    "MROPE_ROTARY_COS_SIN": "mrope_rotary_cos_sin",
    "MROPE_POSITION_DELTAS": "mrope_position_deltas",
}
"""The ensemble's connections between encoder and language model."""

OWN_INPUTS = {
    "PROMPT_TEXT": "prompt_text",
    "RAW_IMAGES": "raw_images",
    "RAW_IMAGE_SIZES": "raw_image_sizes",
}
"""Those between preprocessing and a checkpoint's own class."""


def plan_of(facts: ModelFacts, vision_engine: VisionEngine = "ONNXRuntime") -> BuildPlan:
    vision = facts.vision
    crossing = FAMILIES[facts.family].kind is Kind.CROSS_ATTENTION and vision is not None
    encoder = ENCODER_INPUT if facts.encoder else None
    if crossing and vision is not None:
        encoder = IMAGES * vision.features_per_image
    decoded = 400
    if vision is not None and not FAMILIES[facts.family].has_tower:
        decoded = max(decoded, IMAGES * vision.features_per_image + 128)
    spec = EngineSpec(
        source_digest=facts.source_digest,
        family=facts.family,
        backend="Reference",
        dtype="float32",
        limits=EngineLimits(
            max_batch_size=BATCH,
            max_input_len=64 if facts.encoder else decoded,
            max_seq_len=64 if facts.encoder else decoded + 80,
            max_num_tokens=max(1024, decoded),
            max_beam_width=1,
            max_images_per_request=IMAGES if vision else 0,
            max_multimodal_len=0
            if vision is None
            else BATCH * IMAGES * FAMILIES[facts.family].layout.features_per_image(vision),
            max_encoder_input_len=encoder,
        ),
        vision=None
        if vision is None or not FAMILIES[facts.family].has_tower
        else VisionPlan(
            engine=vision_engine,
            image_size=vision.image_size,
            features_per_image=vision.features_per_image,
            max_batch_size=3,
            opset=18,
            tolerance=1e-2 if vision_engine == "TensorRT" else 1e-4,
            tensorrt=VisionBuild(dtype="float16", product="NVIDIA-H200", compute_capability="9.0")
            if vision_engine == "TensorRT"
            else None,
        ),
        builder_version="1",
    )
    fingerprint = hashlib.sha256(spec.to_json().encode()).hexdigest()
    return BuildPlan(fingerprint=fingerprint, engine=spec, facts=facts)


def build(
    checkpoint: Path,
    store: Path,
    *,
    evaluated: bool = False,
    vision: VisionEngine = "ONNXRuntime",
    lengths: Mapping[str, int] = MappingProxyType({}),
) -> EngineDirectory:
    """Build an engine in this process: the steps themselves, without the runner around them.

    `evaluated`: it holds the answers of its checkpoint. `vision`: what runs its vision half.
    `lengths`: limits besides those of `plan_of`.
    """
    plan = plan_of(inspect(checkpoint, InspectOptions()), vision)
    limits = plan.engine.limits.model_copy(update=dict(lengths))
    plan = plan.model_copy(update={"engine": plan.engine.model_copy(update={"limits": limits})})
    paths = BuildPaths(store, plan.fingerprint)
    for folder in (paths.llm, paths.vision, paths.processor, paths.pickles, paths.logs):
        folder.mkdir(parents=True)
    write_durably(paths.plan, plan.to_json())
    write_durably(paths.reproduce, "")
    context = StepContext(plan, str(checkpoint), paths)
    fetch(context)
    if plan.engine.vision is not None:
        export_vision(context)
        if plan.engine.vision.tensorrt is not None:
            build_vision(context)
        verify_vision(context)
    else:
        verify_weights(context)
    if evaluated:
        keep_evaluation(context)
    seal(paths, plan, [], datetime.now(UTC))
    return EngineDirectory.open(paths.engine)


@dataclass(frozen=True)
class Pipeline:
    """The parts of one engine that the Triton models hold, connected as the ensemble does."""

    directory: EngineDirectory
    preprocessor: Preprocessor
    loaded: LoadedEngine

    @classmethod
    def load(cls, directory: EngineDirectory, reuse_bytes: int = 0) -> "Pipeline":
        """Load everything; the caller stops `loaded.engine`."""
        serving = serving_plan(directory.manifest.fingerprint)
        loaded = load_engine(
            directory, max_queue_size=16, cancellation_check_seconds=1.0, reuse_bytes=reuse_bytes
        )
        loaded.engine.start()
        return cls(directory, Preprocessor.load(directory, serving), loaded)

    @cached_property
    def encoder(self) -> RequestEncoder:
        assert self.directory.vision is not None
        return load_encoder(self.directory, self.directory.vision)

    def prepare(self, text: str, **tensors: Any) -> dict[str, Any]:
        inputs = {
            "QUERY": np.array([[text.encode()]], dtype=np.object_),
            "REQUEST_OUTPUT_LEN": np.array([[16]], dtype=np.int32),
            **tensors,
        }
        return self.preprocessor.prepare(inputs)

    def inputs(self, text: str, **tensors: Any) -> dict[str, Any]:
        prepared = self.prepare(text, **tensors)
        found = {
            "input_ids": prepared["INPUT_ID"],
            "input_lengths": prepared["REQUEST_INPUT_LEN"],
            "decoder_input_ids": prepared["DECODER_INPUT_ID"],
            "decoder_input_lengths": prepared["REQUEST_DECODER_INPUT_LEN"],
            "request_output_len": prepared["REQUEST_OUTPUT_LEN"],
            "end_id": prepared["OUT_END_ID"],
        }
        if self.directory.vision is None:
            return found | {
                given: prepared[name] for name, given in OWN_INPUTS.items() if name in prepared
            }
        if "OUT_PROMPT_TABLE_EXTRA_IDS" in prepared:
            found["prompt_table_extra_ids"] = prepared["OUT_PROMPT_TABLE_EXTRA_IDS"]
        wanted = {name.lower(): value for name, value in prepared.items()}
        wanted |= {"max_tokens": prepared["REQUEST_OUTPUT_LEN"]}
        encoded = encode_requests(self.encoder, [wanted], np.float32)[0]
        if isinstance(encoded, Exception):
            raise encoded
        return found | {ENCODER_OUTPUTS[name]: value for name, value in encoded.items()}

    def request(self, text: str, **tensors: Any) -> Request:
        read = read_request(
            self.inputs(text, **tensors),
            end_ids=self.loaded.end_ids,
            vocabulary_size=self.loaded.vocabulary_size,
            fresh_seed=1,
            encoder_decoder=self.loaded.encoder_decoder,
        )
        return self.loaded.complete(read)

    def query(self, text: str, **tensors: Any) -> list[int]:
        sink = CollectingSink()
        self.loaded.engine.submit(self.request(text, **tensors), sink)
        return sink.wait()
