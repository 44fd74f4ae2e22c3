"""PURE: what the configurations are filled with, from manifest and serving plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import KvCachePlan, ServingPlan
from mm_api.families import FAMILIES
from mm_api.trtllm_layout import GUIDED_FOLDER, TOKENIZER_INFO, folder_in_engine
from mm_runtime.base.trtllm_names import has_newer_names
from mm_runtime.errors import PermanentError
from mm_runtime.repository.model_config import DataType, Parameter, strings
from mm_runtime.serving.encode.gpu_features import are_gpu_tensors

NUMPY_TABLE_TYPES = {DataType.BF16: DataType.FP32}
"""In host memory the Reference engine's models hand tables over as numpy arrays, which have no
bfloat16; between models on a GPU they are tensors of torch, which have."""

ENGINE_DTYPES = {"float16": DataType.FP16, "bfloat16": DataType.BF16, "float32": DataType.FP32}


@dataclass(frozen=True, slots=True)
class TrtllmValues:
    """What TensorRT-LLM's own backend needs besides: only for engines of TensorRT-LLM."""

    engines: Mapping[str, PurePath]
    """Name of an engine (llm, encoder, decoder, vision) -> its folder."""

    kv_cache: KvCachePlan
    newer_names: bool
    """Its inputs are `seed` and `min_tokens`, not `random_seed` and `min_length`."""

    tokenizer_info: PurePath | None
    """The tokenizer's table, by which answers are kept to a form; None: they are not."""

    adapters: PurePath | None
    """Folder with one folder for each LoRA adapter, named by its id; None: there are none."""


@dataclass(frozen=True, slots=True)
class RepositoryValues:
    """Everything a configuration depends on."""

    engine_dir: PurePath
    """Directory of the manifest."""

    serving_plan: PurePath
    limits: EngineLimits
    serving: ServingPlan
    has_vision: bool
    """The engine encodes images; without it there is no encoder model."""

    reads_raw_images: bool
    """The language model's process runs the checkpoint's own processor, on texts and images."""

    accepts_audio: bool
    """The engine reads audio: a spectrogram comes from `preprocessing`."""

    table_type: DataType
    """Element type of the prompt embedding table: the engine's, or TensorRT-LLM refuses it."""

    trtllm: TrtllmValues | None
    """None: the Reference engine's Python models serve it."""

    host_table_type: DataType
    """The same of an encoder in a pod of its own, which gives features out in host memory."""

    pixel_bytes: bool
    """Between models of the gateway's ensembles, images are bytes that the encoder normalises."""

    gpu_features: bool
    """Image features are GPU tensors between encoder and language model."""

    encoder_threads: int | None
    """Percent of the GPU's threads for the encoder's process; None: all, in turns."""

    @property
    def own_tensors(self) -> bool:
        """Whether the model `tensorrt_llm` has inputs and outputs that upstream's has not."""
        return self.trtllm is None

    @property
    def keeps_forms(self) -> bool:
        return self.trtllm is None or self.trtllm.tokenizer_info is not None

    @property
    def announces_features(self) -> bool:
        """Whether the language model refuses features that left on the GPU and arrive elsewhere."""
        return self.gpu_features and self.own_tensors

    @property
    def prompt_type(self) -> DataType:
        """Element type of the prompt table, which templates of older versions have as FP16.

        Engines of another type have no prompt table there (`TableDtype` of the plan).
        """
        older = self.trtllm is not None and not self.trtllm.newer_names
        return DataType.FP16 if older else self.table_type

    def shared_parameters(self) -> dict[str, Parameter]:
        return strings(
            engine_dir=str(self.engine_dir),
            serving_plan=str(self.serving_plan),
            accumulate_tokens=self.serving.accumulate_tokens,
        )


def values_of(
    manifest: EngineManifest,
    serving: ServingPlan,
    engine_dir: PurePath,
    serving_plan: PurePath,
    adapters: PurePath,
) -> RepositoryValues:
    """Return the values for one engine served under one plan.

    Raises:
        PermanentError: an engine dtype that a prompt embedding table cannot have, or a
            TensorRT-LLM engine whose plan lacks what its backend needs.
    """
    engine, facts = manifest.plan.engine, manifest.plan.facts
    if engine.dtype not in ENGINE_DTYPES:
        raise PermanentError(
            f"The engine's dtype {engine.dtype!r} is not one of {', '.join(ENGINE_DTYPES)}."
        )
    table_type = host_type = ENGINE_DTYPES[engine.dtype]
    gpu_features = are_gpu_tensors(manifest, serving)
    if engine.traits.runs_checkpoints:
        numpy_type = NUMPY_TABLE_TYPES.get(table_type, table_type)
        # Torch makes tensors of bfloat16, and is not loaded for another vision engine.
        has_torch = engine.vision is not None and engine.vision.may_use_gpu
        host_type = table_type if gpu_features and has_torch else numpy_type
        table_type = table_type if gpu_features else numpy_type
    shared = serving.sharing
    return RepositoryValues(
        engine_dir=engine_dir,
        serving_plan=serving_plan,
        limits=engine.limits,
        serving=serving,
        has_vision=engine.vision is not None,
        reads_raw_images=not FAMILIES[engine.family].has_tower,
        accepts_audio=facts.encoder is not None and facts.encoder.mel_bins is not None,
        table_type=table_type,
        trtllm=_trtllm(manifest, serving, engine_dir, adapters)
        if engine.traits.builds_engines
        else None,
        host_table_type=host_type,
        pixel_bytes=FAMILIES[engine.family].layout.is_square and engine.vision is not None,
        gpu_features=gpu_features,
        encoder_threads=shared.thread_percentage if shared and shared.mode == "MPS" else None,
    )


def _trtllm(
    manifest: EngineManifest, serving: ServingPlan, engine_dir: PurePath, adapters: PurePath
) -> TrtllmValues:
    build = manifest.plan.trtllm
    if build is None or serving.kv_cache is None:
        missing = "commands (trtllm)" if build is None else "a KV cache (kvCache)"
        raise PermanentError(
            f"The plan of this TensorRT-LLM engine has no {missing}, so how it is served is not"
            " known. Let this version's operator plan and build it again."
        )
    return TrtllmValues(
        engines={
            command.name: engine_dir / folder_in_engine(command.name, build.version)
            for command in build.engines
        },
        kv_cache=serving.kv_cache,
        newer_names=has_newer_names(build.version),
        tokenizer_info=engine_dir / GUIDED_FOLDER / TOKENIZER_INFO
        if build.tokenizer_info
        else None,
        adapters=adapters if build.lora else None,
    )
