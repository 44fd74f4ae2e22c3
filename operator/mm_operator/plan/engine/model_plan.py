"""The whole plan of a TensorRT engine: checks, sizes, commands, verdict and fingerprint."""

from dataclasses import dataclass, replace

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import EncoderMemory, ModelPlan, PlanError, PlanWarning, Reason
from mm_api.documents.trtllm_build import Command, EngineCommand, GpuModel
from mm_api.families.family import Family, Kind
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.plan.engine import commands
from mm_operator.plan.engine.build_documents import build_plan, serving_plan, trtllm_build
from mm_operator.plan.engine.cache import fraction_of
from mm_operator.plan.engine.checks import problems
from mm_operator.plan.engine.encoder_memory import vision_activation_bytes, vision_engine_bytes
from mm_operator.plan.engine.encoder_share import encoder_share
from mm_operator.plan.engine.encoders import check_vision, encoder_memory
from mm_operator.plan.engine.exposure import exposure_warnings
from mm_operator.plan.engine.family import family_of
from mm_operator.plan.engine.fit import fullest, verdict
from mm_operator.plan.engine.gateway_limit import gateway_limit_warnings
from mm_operator.plan.engine.memory import PROCESS_BYTES
from mm_operator.plan.engine.pool import serving_limits
from mm_operator.plan.engine.request import Ask, ask_of
from mm_operator.plan.engine.serve_command import quantization, serve
from mm_operator.plan.engine.situation import Situation
from mm_operator.plan.engine.sizes import EngineSizing, Subject, size
from mm_operator.plan.engine.suggestions import suggest
from mm_operator.plan.engine.tables import table, trtllm_version, version_of

DEPRECATED_SINCE = "1.2.0"
_TYPES = {"float16": "TYPE_FP16", "bfloat16": "TYPE_BF16", "float32": "TYPE_FP32"}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a plan follows from."""

    model: str
    spec: MultimodalModelSpec
    facts: ModelFacts
    gpu: GpuModel
    image: str | None
    given_version: str | None
    backend: str
    builder_version: str
    serving_image: str | None = None
    """Of the pods; None: the one of the spec, or the one that builds."""


def plan_model(inputs: Inputs) -> ModelPlan:
    """Return the plan; what is wrong is in its `errors`, never raised."""
    facts, spec = inputs.facts, inputs.spec
    empty = ModelPlan(
        model=inputs.model,
        family=facts.family,
        backend=inputs.backend,
        gpu=inputs.gpu,
        tensor_parallel=spec.engine.parallelism.tensor,
        pipeline_parallel=spec.engine.parallelism.pipeline,
    )
    try:
        family = family_of(facts.family)
        version, why = trtllm_version(
            inputs.image or spec.build.image,
            inputs.given_version or spec.build.trtllm_version,
            inputs.serving_image or spec.runtime.image,
        )
    except SpecError as error:
        return empty.model_copy(update={"errors": [_as_error(error)]})
    ask = _ask(inputs)
    situation = Situation(
        ask=ask,
        facts=facts,
        family=family,
        backend=inputs.backend,
        gpu=inputs.gpu,
        version=version,
        gpu_count=spec.runtime.gpu.count,
        family_asked=spec.model.family,
        allow_pickle=spec.model.allow_pickle,
    )
    empty = empty.model_copy(update={"trtllm_version": version})
    subject = Subject(facts, family, inputs.gpu, version)
    errors = problems(situation)
    try:
        check_vision(spec, facts)
        sizing = size(ask, subject)
        errors += _after(ask, sizing)
        built = _build(inputs, situation, sizing) if not errors else None
    except SpecError as error:
        errors.append(_as_error(error))
        built = None
    if errors or built is None:
        return empty.model_copy(update={"errors": errors})
    short = fullest(sizing.memory)
    suggestions = (
        suggest(ask, situation, subject) if short.total_bytes > short.gpu_memory_bytes else ()
    )
    convert, engines = built
    trtllm = None
    if convert is not None:
        trtllm = trtllm_build(
            spec, facts, version=version, gpu=inputs.gpu, convert=convert, engines=engines
        )
    spec = spec.model_copy(
        update={"engine": spec.engine.model_copy(update={"backend": inputs.backend})}
    )
    staged = inputs.backend == "PyTorch"
    document = build_plan(
        spec,
        facts,
        sizing,
        trtllm=trtllm,
        builder_version=inputs.builder_version,
        quantization=quantization(spec, version) if staged else None,
    )
    served = None
    if staged:
        served = serve(inputs.model, spec, facts, sizing, version)
    share = encoder_share(spec, facts, family, sizing.sized.limits, inputs.gpu)
    serving = serving_plan(
        inputs.model,
        spec,
        sizing,
        document.fingerprint,
        trtllm_serve=served,
        sharing=share.sharing,
    )
    return empty.model_copy(
        update={
            "dtype": sizing.dtype,
            "fingerprint": document.fingerprint,
            "limits": sizing.sized.limits,
            "convert": convert,
            "engines": engines,
            "serve": served,
            "memory": sizing.memory.model_copy(update={"encoder": _encoder(inputs, sizing)}),
            "pool": sizing.pools.pool,
            "serving": serving_limits(
                ask, sizing.sized.limits, sizing.pools, _template(family, sizing, version)
            ),
            "fit": verdict(sizing.memory, suggestions),
            "reasons": [
                Reason(field="trtllmVersion", value=version, reason=why),
                _dtype_reason(situation, sizing),
                *sizing.sized.reasons,
                _pool_reason(sizing),
                *share.reasons,
            ],
            "warnings": [
                *exposure_warnings(spec, inputs.serving_image or spec.runtime.image),
                *gateway_limit_warnings(spec, serving.gateway),
                *share.warnings,
                *_warnings(situation, sizing),
            ],
            "build_plan": document,
            "serving_plan": serving,
        }
    )


def _encoder(inputs: Inputs, sizing: EngineSizing) -> EncoderMemory | None:
    """Return the bytes of an encoder in a pod of its own, which has one process on its GPU."""
    facts, family = inputs.facts, family_of(inputs.facts.family)
    activations = vision_activation_bytes(facts, family, sizing.sized.limits)
    return encoder_memory(
        inputs.spec,
        vision_bytes=vision_engine_bytes(facts, family) + activations,
        context_bytes=PROCESS_BYTES,
    )


def _ask(inputs: Inputs) -> Ask:
    """Return what is asked; trtllm-serve computes in the checkpoint's type, whatever engines do."""
    ask, own = ask_of(inputs.spec), inputs.facts.dtype
    if inputs.backend == "PyTorch" and ask.dtype == "Auto" and own in {"float16", "bfloat16"}:
        return replace(ask, dtype=own)
    return ask


def _dtype_reason(now: Situation, sizing: EngineSizing) -> Reason:
    if now.backend == "PyTorch" and sizing.dtype == now.facts.dtype:
        return Reason(field="dtype", value=sizing.dtype, reason="the checkpoint's own")
    return sizing.dtype_reason


def _as_error(error: SpecError) -> PlanError:
    return PlanError(path=error.path, code=error.reason, message=error.message)


def _build(
    inputs: Inputs, now: Situation, sizing: EngineSizing
) -> tuple[Command | None, list[EngineCommand]]:
    if inputs.backend == "PyTorch":  # loads the checkpoint itself: nothing is built
        return None, []
    convert = commands.convert(now.ask, now.facts, now.family, sizing.dtype, now.version)
    return convert, commands.engines(
        now.ask,
        now.family,
        sizing.sized.limits,
        sizing.dtype,
        now.version,
        lora=now.facts.lora,
    )


def _after(ask: Ask, sizing: EngineSizing) -> list[PlanError]:
    """Return what is only known once everything is sized."""
    gpu = fullest(sizing.memory)
    limits = sizing.sized.limits
    found = []
    if limits.max_num_tokens < limits.max_input_len:
        found.append(
            PlanError(
                path="spec.engine.maxNumTokens",
                code="NumTokensBelowInputLen",
                message=f"{limits.max_num_tokens} is below the prompt's {limits.max_input_len}, "
                "and a prompt must fit into one step (chunked context is off): raise it",
            )
        )
    if ask.kv_fraction is not None:
        available = gpu.gpu_memory_bytes - (gpu.total_bytes - gpu.kv_cache_bytes)
        late = gpu.vision_engine_bytes + gpu.vision_activation_bytes
        most = fraction_of(available, available + late)
        if ask.kv_fraction > most > 0:
            found.append(
                PlanError(
                    path="spec.engine.kvCache.freeGpuMemoryFraction",
                    code="KvFractionTooLarge",
                    message=f"{ask.kv_fraction} leaves too little for what is allocated after the "
                    f"cache (the vision engine may load later): use at most {most}, or Auto",
                )
            )
    return found


def _template(family: Family, sizing: EngineSizing, version: str) -> dict[str, str]:
    """Return the template keys of Triton's repository that the plan decides."""
    memory, limits = sizing.memory, sizing.sized.limits
    values = {
        "triton_max_batch_size": str(limits.max_batch_size),
        "max_beam_width": str(limits.max_beam_width),
        "kv_cache_free_gpu_mem_fraction": str(memory.kv_cache_free_gpu_memory_fraction),
    }
    if memory.cross_kv_cache_fraction is not None:
        values["cross_kv_cache_fraction"] = str(memory.cross_kv_cache_fraction)
    if family.kind is Kind.ENCODER_DECODER:
        values["encoder_engine_dir"] = commands.output_folder("encoder", version)
        values["exclude_input_in_output"] = "True"
    elif limits.vision_max_batch_size:
        key = commands.scripts(version)["visionKey"]
        values[key] = commands.output_folder("vision", version)
        values["max_num_images"] = str(limits.max_images_per_request)
    if version_of(version) >= version_of(table("tools")["tableDtypeKeySince"]):
        values["prompt_embedding_table_data_type"] = _TYPES[sizing.dtype]
    return values


def _pool_reason(sizing: EngineSizing) -> Reason:
    pool = sizing.pools.pool
    return Reason(
        field="memoryPools.cuda",
        value=str(pool.bytes),
        reason=f"{pool.copies} x {pool.live_requests} live requests x "
        f"{pool.table_bytes_per_request} bytes x {pool.factor} + 1 MiB, at least 64 MiB; "
        f"{pool.bounded_by} keeps the number of requests",
    )


def _warnings(now: Situation, sizing: EngineSizing) -> list[PlanWarning]:
    found = [PlanWarning(code="Family", message=note) for note in now.family.notes]
    if now.backend == "TensorRT" and version_of(now.version) >= version_of(DEPRECATED_SINCE):
        found.append(
            PlanWarning(
                code="Deprecated",
                message=f"TensorRT-LLM {now.version} prints deprecation warnings for engines; "
                f"{table('images')['engines']['last']} is the last with them",
            )
        )
    if now.backend == "PyTorch":
        found.append(
            PlanWarning(
                code="PyTorchEstimate",
                message="memory is that of an engine: TensorRT-LLM on PyTorch reserves no prompt "
                "table, and sizes its cache by its own fraction",
            )
        )
    if now.ask.pipeline_parallel > 1:
        found.append(
            PlanWarning(
                code="PipelineParallel",
                message="upstream shows multimodal engines with tensor parallelism only: stages "
                "are planned by its converters' flags and have not been run",
            )
        )
    if now.ask.lora and now.family.kind is Kind.ENCODER_DECODER:
        found.append(
            PlanWarning(
                code="LoraPadding",
                message="engines with adapters keep their input padding, as upstream's guide "
                "builds BART; whether Triton batches their requests in flight has not been run",
            )
        )
    memory, batch = sizing.memory, sizing.sized.limits.max_batch_size
    if memory.full_length_sequences < batch:
        found.append(
            PlanWarning(
                code="KvCacheHoldsFewer",
                message=f"if the vision engine loads first, the KV cache holds "
                f"{memory.full_length_sequences} full sequences, and a batch has {batch}: long "
                "requests would wait",
            )
        )
    text = now.facts.text
    written = now.family.serving.vocabulary
    if written is not None and text.vocabulary_size != written:
        found.append(
            PlanWarning(
                code="Vocabulary",
                message=f"upstream's preprocessing model has the vocabulary {written} written "
                f"into it, and the checkpoint's is {text.vocabulary_size}: it gives wrong answers",
            )
        )
    return found
