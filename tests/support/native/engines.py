"""Engines of TensorRT-LLM as a build leaves them, small: each file names a Reference engine.

Plan, checkpoint, processor and manifest are made by the project's own code. What the tools of a
version write is written here: `config.json` of each engine, and tensors and profiles of the vision
engine as `tensorrt_llm/tools/multimodal_builder.py` makes them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from mm_api.documents.build_plan import BuildPlan, EngineLimits
from mm_api.documents.model_facts import ModelFacts, VisionFacts
from mm_api.documents.serving_plan import ServingPlan
from mm_api.families import FAMILIES
from mm_api.families.family import Kind
from mm_api.trtllm_layout import TOKENIZER_INFO
from mm_runtime.adapters.files import sourced
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands.evaluation import keep_evaluation
from mm_runtime.engine_build.commands.fetch import fetch
from mm_runtime.engine_build.commands.fetch_adapters import fetch_adapters
from mm_runtime.engine_build.commands.fit_tokenizer_info import fit_tokenizer_info
from mm_runtime.engine_build.commands.lora import lora
from mm_runtime.engine_build.commands.processor import processor
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.engine_build.seal import seal
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.prompts.tokens import TextCodec
from support.calling_llava import LIMITS as SPELLED
from support.calling_llava import write_calling_llava
from support.families import images, texts
from support.families.pipeline import BATCH, ENCODER_INPUT, build
from support.model_configs import planned
from support.tiny_llava import CHECKPOINT, BuiltEngine, build_adapted

TENSORRT = "10.10.0.31"
"""As the stand-in of `tensorrt` has it."""

ARCHITECTURES = {
    "mllama": "MLLaMAForCausalLM",
    "qwen2-vl": "Qwen2VLForConditionalGeneration",
    "llava-onevision": "QWenForCausalLM",
    "blip2-opt": "OPTForCausalLM",
}
LEAST_PATCHES, MOST_PATCHES = 128, 5184
"""--min_hw_dims and --max_hw_dims."""

MEBI = 1 << 20
LENGTHS = {"max_input_len": 400, "max_seq_len": 480}
"""Of decoders, as `support.families.pipeline` has them."""


@dataclass(frozen=True)
class NativeEngine:
    """One engine, and the Reference engine of the same checkpoint."""

    family: str
    checkpoint: Path
    reference: EngineDirectory
    built: BuiltEngine

    @property
    def plan(self) -> BuildPlan:
        return EngineDirectory.open(self.built.directory).manifest.plan


def native_engine_of(
    family: str, folder: Path, version: str, engine: Mapping[str, Any] = MappingProxyType({})
) -> NativeEngine:
    """Build a small engine of a family under a folder; `engine`: more fields of the resource.

    Without its checkpoint's answers: tests compare them themselves, and servers are ready sooner.
    """
    checkpoint = checkpoint_of(family, folder / "checkpoint")
    reference = build(checkpoint, folder / "reference")
    plans = _plans(family, version, reference.facts, engine=engine, build={"evaluation": "Off"})
    return _sealed(folder, version, checkpoint, reference, plans)


def evaluated_engine(
    family: str,
    folder: Path,
    version: str,
    adapters: Mapping[str, Path] = MappingProxyType({}),
    *,
    checkpoint: Path | None = None,
    keep: Callable[[StepContext], None] = keep_evaluation,
) -> NativeEngine:
    """Build a small engine with its checkpoint's answers.

    Args:
        family: of the engine.
        folder: made files go below it.
        version: of TensorRT-LLM.
        adapters: name -> folder.
        checkpoint: of the family; None: `checkpoint_of`.
        keep: the step that computes the answers.
    """
    checkpoint = checkpoint or checkpoint_of(family, folder / "checkpoint")
    if adapters:
        adapted = folder / "adapted"
        adapted.mkdir()
        reference = EngineDirectory.open(
            build_adapted(adapted, checkpoint, adapters, LENGTHS).directory
        )
    else:
        reference = build(checkpoint, folder / "reference")
    claim = {"persistentVolumeClaim": {"claimName": "adapters"}}
    lora = [{"name": name, "source": claim} for name in adapters]
    plan, serving = _plans(family, version, reference.facts, engine={"lora": lora})
    plan = sourced(plan, {name: str(source) for name, source in adapters.items()})
    return _sealed(folder, version, checkpoint, reference, (plan, serving), keep=keep)


def spelling_engine(
    folder: Path, version: str, template: str, engine: Mapping[str, Any] = MappingProxyType({})
) -> NativeEngine:
    """Build an engine of a LLaVA whose tokens are bytes; `engine`: more fields of the resource."""
    checkpoint = write_calling_llava(folder / "checkpoint", template)
    reference = build(checkpoint, folder / "reference", lengths=SPELLED)
    fields = {
        "maxInputLen": SPELLED["max_input_len"],
        "maxSeqLen": SPELLED["max_seq_len"],
        "maxNumTokens": SPELLED["max_num_tokens"],
        **engine,
    }
    plans = _plans("llava", version, reference.facts, engine=fields, build={"evaluation": "Off"})
    return _sealed(folder, version, checkpoint, reference, plans)


def _sealed(
    folder: Path,
    version: str,
    checkpoint: Path,
    reference: EngineDirectory,
    plans: tuple[BuildPlan, ServingPlan],
    *,
    keep: Callable[[StepContext], None] = keep_evaluation,
) -> NativeEngine:
    plan, serving = plans
    paths = BuildPaths.of(folder / "store", plan)
    for one in paths.folders:
        one.mkdir(parents=True, exist_ok=True)
    write_durably(paths.plan, plan.to_json())
    context = StepContext(plan, str(checkpoint), paths)
    fetch(context)
    if plan.adapters:
        fetch_adapters(context)
        lora(context)
    processor(context)
    keep(context)
    _write_engines(paths.unfinished, plan, version, reference)
    if plan.trtllm and plan.trtllm.tokenizer_info:
        _write_table(paths)
        fit_tokenizer_info(context)
    seal(paths, plan, [], datetime.now(UTC))
    file = folder / "serving.json"
    file.write_text(serving.to_json())
    return NativeEngine(plan.facts.family, checkpoint, reference, BuiltEngine(paths.engine, file))


def checkpoint_of(family: str, folder: Path) -> Path:
    """Return a small checkpoint; LLaVA's is the trained one, whose answers are right."""
    if family == "llava":
        return CHECKPOINT
    writer = texts if family in texts.WRITERS else images
    return writer.write(family, folder)


def _plans(
    family: str,
    version: str,
    facts: ModelFacts,
    *,
    engine: Mapping[str, Any] = MappingProxyType({}),
    **spec: Any,
) -> tuple[BuildPlan, ServingPlan]:
    engine = {"maxBatchSize": BATCH, **engine}
    if FAMILIES[family].kind is Kind.ENCODER_DECODER:
        engine |= {"maxBeamWidth": 2, "maxSeqLen": ENCODER_INPUT}
        if not FAMILIES[family].reads_audio:
            engine |= {"maxEncoderInputLen": ENCODER_INPUT}
    else:
        lengths = {"maxInputLen": LENGTHS["max_input_len"], "maxSeqLen": LENGTHS["max_seq_len"]}
        engine = {**lengths, "maxNumTokens": 1024, **engine}
    vision = {"sharing": "TimeSlicing"} if facts.vision else {}
    named = FAMILIES[family].trtllm.model_name is not None
    complete = planned(
        family,
        engine,
        version=version,
        facts=None if named else facts,
        vision=vision,
        runtime={"memoryPools": {"pinned": "256Mi"}},  # without a GPU features are in host memory
        **spec,
    )
    assert not complete.errors, complete.errors
    assert complete.build_plan
    assert complete.serving_plan
    plan = _shrunk(complete.build_plan, facts) if named else complete.build_plan
    limits = {"max_image_pixels": MEBI, "max_image_bytes": MEBI, "request_timeout_seconds": 60}
    gateway = complete.serving_plan.gateway.model_copy(update=limits)
    changes = {"gateway": gateway, "bls_instances": 1, "feature_cache_bytes": 0}
    return plan, complete.serving_plan.model_copy(update=changes)


def _shrunk(plan: BuildPlan, facts: ModelFacts) -> BuildPlan:
    """Return a plan of published sizes for a small checkpoint: a converter knows no other sizes."""
    assert facts.encoder
    assert facts.encoder.max_positions
    limits = {"max_encoder_input_len": 2 * facts.encoder.max_positions}
    changes = {
        "source_digest": facts.source_digest,
        "limits": plan.engine.limits.model_copy(update=limits),
    }
    engine = plan.engine.model_copy(update=changes)
    return plan.model_copy(update={"facts": facts, "engine": engine})


def _write_engines(folder: Path, plan: BuildPlan, version: str, reference: EngineDirectory) -> None:
    build, pointer = plan.trtllm, json.dumps({"reference": str(reference.root)})
    assert build
    for command in build.engines:
        if command.name == "vision":
            _write_vision(folder / _vision_folder(version), plan, reference)
            continue
        own = folder / command.name
        own.mkdir()
        config = {
            "version": version,
            "pretrained_config": _pretrained(plan, command.name),
            "build_config": _built(plan.engine.limits, command.argv),
        }
        (own / "config.json").write_text(json.dumps(config))
        (own / "rank0.engine").write_text(pointer)


def _write_table(paths: BuildPaths) -> None:
    """Write the tokenizer's table as generate_xgrammar_tokenizer_info.py does."""
    file = next(paths.checkpoint_tokenizer.rglob("tokenizer.json"))
    ids = Tokenizer.from_file(str(file)).get_vocab()
    table = {
        "encoded_vocab": sorted(ids, key=lambda name: ids[name]),
        "tokenizer_str": file.read_text(),
        "stop_token_ids": [TextCodec(file.parent).end_id],
    }
    paths.tokenizer_table.mkdir(parents=True)
    (paths.tokenizer_table / TOKENIZER_INFO).write_text(json.dumps(table))


def _vision_folder(version: str) -> str:
    old = tuple(int(part) for part in version.split(".")[:2]) < (0, 19)
    return "vision_encoder" if old else "multimodal_encoder"


def _pretrained(plan: BuildPlan, part: str) -> dict[str, Any]:
    text = plan.facts.text
    parts = {"encoder": "EncoderModel", "decoder": "DecoderModel"}
    return {
        "architecture": parts.get(part) or ARCHITECTURES.get(plan.facts.family, "LlamaForCausalLM"),
        "dtype": plan.engine.dtype,
        "vocab_size": text.vocabulary_size,
        "hidden_size": text.hidden_size,
        "max_position_embeddings": text.max_position_embeddings,
        "head_size": text.head_size,
        "num_hidden_layers": text.layers,
        "num_attention_heads": text.attention_heads,
        "num_key_value_heads": text.key_value_heads,
        "intermediate_size": text.intermediate_size,
        "mapping": {"world_size": 1, "tp_size": 1, "pp_size": 1},
    }


def _built(limits: EngineLimits, argv: list[str]) -> dict[str, Any]:
    flags = " ".join(argv).split("--")
    given = {one.split()[0]: one.split()[1:] for one in flags if one}
    return {
        "lora_config": {
            "lora_target_modules": given.get("lora_target_modules", []),
            "max_lora_rank": int(given.get("max_lora_rank", ["64"])[0]),
        },
        "max_batch_size": limits.max_batch_size,
        "max_beam_width": limits.max_beam_width,
        "max_input_len": limits.max_input_len,
        "max_seq_len": limits.max_seq_len,
        "max_prompt_embedding_table_size": limits.max_multimodal_len,
        "max_encoder_input_len": limits.max_encoder_input_len or 0,
    }


def _write_vision(folder: Path, plan: BuildPlan, reference: EngineDirectory) -> None:
    vision = plan.facts.vision
    assert vision
    assert plan.engine.vision
    folder.mkdir()
    batch = plan.engine.vision.max_batch_size
    layout = FAMILIES[plan.facts.family].layout
    describe = {"tiles": _tiles, "patches": _patches, "pixels": _pixels}[layout.engine_tensors]
    described = describe(vision, batch)
    built = {
        "tensorrt": TENSORRT,
        "onnx": str(reference.root / "vision" / "model.onnx"),
        "hidden": plan.facts.text.hidden_size,
        "rows": vision.features_per_image,
        **described,
    }
    (folder / "model.engine").write_text(json.dumps(built))
    config = {"precision": "float16", "model_type": plan.facts.family, "max_batch_size": batch}
    (folder / "config.json").write_text(json.dumps({"builder_config": config}))
    if layout.vectors:
        with np.load(reference.root / "vision" / "extras.npz") as extras:
            newline = extras["image_newline"].astype(np.float16)
        save_file({"image_newline": newline}, folder / "image_newlines.safetensors")


def _profile(batch: int, *sizes: int) -> list[list[int]]:
    return [[count, *sizes] for count in (1, max(1, batch // 2), batch)]


def _pixels(vision: VisionFacts, batch: int) -> Mapping[str, Any]:
    profile = _profile(batch, 3, vision.image_size, vision.image_size)
    return {
        "kind": "pixels",
        "inputs": {"input": {"dtype": "HALF", "profile": profile}},
        "output": {"dtype": "HALF"},
    }


def _tiles(vision: VisionFacts, batch: int) -> Mapping[str, Any]:
    tiles, side = vision.max_tiles or 1, vision.image_size
    return {
        "kind": "tiles",
        "inputs": {
            "pixel_values": {"dtype": "BF16", "profile": _profile(batch, 1, tiles, 3, side, side)},
            "aspect_ratio_ids": {"dtype": "INT64", "profile": _profile(batch, 1)},
            "aspect_ratio_mask": {"dtype": "INT64", "profile": _profile(batch, 1, tiles)},
        },
        "output": {"dtype": "BF16"},
    }


def _patches(vision: VisionFacts, batch: int) -> Mapping[str, Any]:
    merged = (vision.merge_size or 1) ** 2
    quarter = vision.hidden_size // (vision.attention_heads or 1) // 2
    counts = (LEAST_PATCHES, MOST_PATCHES, MOST_PATCHES * batch)
    width = 3 * 2 * vision.patch_size**2
    return {
        "kind": "patches",
        "merged": merged,
        "inputs": {
            "input": {"dtype": "HALF", "profile": [[one, width] for one in counts]},
            "rotary_pos_emb": {"dtype": "FLOAT", "profile": [[one, quarter] for one in counts]},
            "attention_mask": {"dtype": "HALF", "profile": [[1, one, one] for one in counts]},
        },
        "output": {"dtype": "FLOAT"},
    }
