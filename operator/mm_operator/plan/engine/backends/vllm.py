"""vLLM, unmodified: the checkpoint is served as it was staged, by the plan's command."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from mm_api.backends import REFERENCE
from mm_api.conditions import Reason as ConditionReason
from mm_api.contract import HTTP_PORT, VLLM_IMAGE
from mm_api.documents.engine_manifest import ADAPTERS_FOLDER, CHECKPOINT_FOLDER
from mm_api.documents.model_facts import LoraFacts, ModelFacts
from mm_api.documents.model_plan import Fit, MemoryPlan, PlanWarning, Reason
from mm_api.documents.serving_plan import MemoryPools
from mm_api.documents.trtllm_build import GpuModel
from mm_api.documents.vllm_serve import FeatureFolder, VllmServe, ec_transfer_config
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families import FAMILIES
from mm_api.families.family import MOST_RECORDINGS
from mm_api.modalities import transcribes
from mm_api.v1alpha1.vision import VisionEngine
from mm_api.vllm_classes import VERSIONS, classes_of, supported
from mm_operator.errors import SpecError
from mm_operator.plan.engine import checks
from mm_operator.plan.engine.adapters import check_inspected, planned_adapters
from mm_operator.plan.engine.backend import BuildParts, ServingParts, Sizes
from mm_operator.plan.engine.backends.vllm_arguments import (
    CACHE_TYPE,
    check_arguments,
    given,
    kind_of,
    nearest_version,
)
from mm_operator.plan.engine.backends.vllm_memory import (
    BLOCK_TOKENS,
    VllmMemoryInputs,
    feature_folder,
    largest_graph,
    plan_vllm_memory,
)
from mm_operator.plan.engine.cache import cache_size
from mm_operator.plan.engine.checks import Case, plan_error
from mm_operator.plan.engine.dtypes import BFLOAT16_SINCE, FP8_SINCE, capability
from mm_operator.plan.engine.encoders import (
    encodes_on_processor,
    is_disaggregated,
    server_cache_bytes,
)
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.links import node_links
from mm_operator.plan.engine.pools import Pools
from mm_operator.plan.engine.request import PlanRequest, Target, request_of
from mm_operator.plan.engine.stored import check_stored_for_servers
from mm_operator.plan.engine.suggestions import suggested, verdict

HOST: Final = "127.0.0.1"
"""Only the gateway beside it connects: vLLM fetches any URL that it is given."""

_TAG = re.compile(r":v?(\d+\.\d+\.\d+)(?:[-.+@]|$)")

_TIMES: Final = "trust-request-mm-kwargs"
"""The gateway says with each video when its frames are shown."""

_HALF = "float16"
_PROMPT_STEP: Final = 288
"""Tokens of prompts in a step where encoders are disaggregated: all streams wait for a longer one.
p95 between tokens beside images was 19 ms so (LLaVA-1.5 7B, H200), 53 with vLLM alone."""
_ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",  # the store is the only source: a pod does not reach out
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CACHE_ROOT": "/tmp/vllm",  # noqa: S108  # an emptyDir of the pod's own
    "XDG_CACHE_HOME": "/tmp/cache",  # noqa: S108
}
_ESTIMATE: Final = PlanWarning(
    code="VllmEstimate",
    message="bytes beside weights, keys and values are bounds that were compared with a driver's "
    "count of LLaVA shapes of 7 B and 1.3 B and of Qwen2.5-VL's of 7 B (vLLM 0.26.0, H200); vLLM's "
    "own profile decides how many keys and values there are",
)

_AUDIO: Final = PlanWarning(
    code="VllmAudio",
    message="vLLM's own image lacks the packages that read recordings: name one in "
    "spec.runtime.image that was built with vllm[audio] (docs/tasks/vllm.md#recordings)",
)


def vllm_version(image: str | None, stated: str | None) -> tuple[str, str]:
    """Return the vLLM version of an image, and where it is known from; SpecError: from nowhere.

    `image`: None: the operator's default. `stated`: spec.runtime.vllmVersion, which wins over the
    tag.
    """
    image = image or VLLM_IMAGE
    tag = _TAG.search(image.partition("@")[0])
    version = (stated or (tag[1] if tag else "")).removesuffix("+cpu")
    if not version:
        raise SpecError(
            "ImageUnknown",
            f"the vLLM of {image} is not known: its tag names none, as v{VERSIONS[-1]} does: set "
            "spec.runtime.vllmVersion",
            "spec.runtime.vllmVersion",
        )
    nearest_version(version)
    if stated:
        return version, "as written in spec.runtime.vllmVersion"
    return version, f"of the tag of {image}"


def check_class(now: Case) -> Iterator[SpecError]:
    """Yield an error for a checkpoint that the version has no class for."""
    kind = now.facts.architecture
    if _supported(now) is None:
        spans = " and ".join(f"{one.first} to {one.last}" for one in classes_of(kind))
        where = f"{spans} have it: use an image of those" if spans else "none that is known has"
        yield plan_error(
            "engine.backend",
            "BackendFamily",
            f"vLLM {now.version} has no class {kind}; {where}{_or_reference(now)}",
        )
    elif (why := now.family.vllm_unfit(now.facts)) is not None:
        message = f"{why}: use another checkpoint{_or_reference(now)}"
        yield plan_error("engine.backend", "BackendFamily", message)
    if now.family.layout.features_of_several is not None and now.request.max_images > 1:
        yield plan_error(
            "engine.maxImagesPerRequest",
            "BackendFamily",
            f"vLLM sees each of several images in views, and {now.family.name} was trained with "
            f"one view of each: set it to 1, or use backend {REFERENCE.name}",
        )


def _or_reference(now: Case) -> str:
    return f", or use backend {REFERENCE.name}" if now.family.is_served(REFERENCE.name) else ""


def _supported(now: Case) -> tuple[str, ...] | None:
    return supported(now.facts.architecture, nearest_version(now.version))


def check_adapters(now: Case) -> Iterator[SpecError]:
    """Yield errors for adapters that the class does not apply, or of too high a rank."""
    if not now.request.lora:
        return
    kind = now.facts.architecture
    if "LoRA" not in (_supported(now) or ()):
        yield plan_error(
            "engine.lora",
            "LoraNotApplied",
            f"vLLM {now.version} applies no adapters to {kind}: remove the field"
            f"{_or_reference(now)}",
        )
    yield from check_inspected(now.request.lora, now.facts)
    ranks = _ranks(now.version)
    if now.facts.lora and now.facts.lora.rank > ranks[-1]:
        yield plan_error(
            "engine.lora",
            "LoraRank",
            f"an adapter has rank {now.facts.lora.rank}, and vLLM takes {ranks[-1]} at the most: "
            f"use adapters of a lower rank{_or_reference(now)}",
        )


def check_split(now: Case) -> Iterator[SpecError]:
    """Yield errors for ranks that the model cannot be split over."""
    yield from checks.check_parallelism(now)
    if now.request.pipeline_parallel > 1 and "PP" not in (_supported(now) or ()):
        yield plan_error(
            "engine.parallelism.pipeline",
            "PipelineParallel",
            f"vLLM {now.version} does not split {now.facts.architecture} by layers: set it to 1",
        )


def check_media(now: Case) -> Iterator[SpecError]:
    """Yield errors for videos without times, and for prompts of which nothing can be kept."""
    since = now.family.vllm_videos_since or VERSIONS[0]
    early = VERSIONS.index(nearest_version(now.version)) < VERSIONS.index(since)
    if now.request.max_video_frames is not None and early:
        yield plan_error(
            "engine.maxVideoFrames",
            "VideoNotSupported",
            f"vLLM {now.version} does not show {now.family.name} the times of frames: use "
            f"vLLM {since} or newer{_or_reference(now)}",
        )
    if now.request.reuse and not now.family.chats:
        yield plan_error(
            "engine.kvCache.reuse",
            ConditionReason.NOT_SUPPORTED,
            "vLLM keeps nothing of what an encoder read: remove the field",
        )


def check_disaggregated(target: Target) -> Iterator[SpecError]:
    """Yield errors for disaggregated encoders that vLLM takes no features of, or that are none."""
    disaggregated, engine = is_disaggregated(target.spec), target.spec.vision.engine
    if disaggregated and target.facts.vision is not None and not target.family.vllm_features:
        taken = ", ".join(name for name, one in FAMILIES.items() if one.vllm_features)
        yield plan_error(
            "vision.placement",
            "BackendFamily",
            f"features of {target.family.name} are not what vLLM keeps of an image, or were not "
            f"compared with it (those of {taken} are): set it to Colocated",
        )
    if disaggregated != (engine == "Torch"):
        yield plan_error(
            "vision.engine",
            "EncoderEngine",
            "encoders in front of vLLM (vision.placement: Disaggregated) compute with torch: set "
            "it to Torch"
            if disaggregated
            else "vLLM encodes images itself: remove the field, or set vision.placement to "
            "Disaggregated",
        )


def check_cache_type(now: Case) -> Iterator[SpecError]:
    """Yield an error for keys and values of FP8 on a GPU that has no such numbers."""
    if _cache_format(now.request, now.facts) == "FP8" and capability(now.gpu) < FP8_SINCE:
        yield plan_error(
            "engine.extraArgs",
            "Fp8NeedsGpu",
            f"--{CACHE_TYPE}: FP8 needs compute capability 8.9, and {now.gpu.product} has "
            f"{now.gpu.compute_capability}: remove it, or use another GPU",
        )


_CHECKS: Final = (
    checks.check_family,
    check_class,
    check_stored_for_servers,
    check_split,
    check_media,
    checks.check_limits,
    check_adapters,
    check_arguments,
    check_cache_type,
    checks.check_source,
)


@dataclass(frozen=True, slots=True)
class Vllm:
    """A stock server, planned."""

    device: GpuModel
    vllm_version: str
    version_reason: str
    serving_image: str | None
    trtllm_version: None = None
    vision_engine: VisionEngine | None = "Torch"
    estimate: ClassVar[PlanWarning] = _ESTIMATE

    @property
    def gpu(self) -> GpuModel | None:
        return self.device

    def request(self, target: Target) -> PlanRequest:
        request = request_of(target.spec)
        if not is_disaggregated(target.spec):
            return request
        return replace(request, pinned_pool_bytes=0, prompt_step=_PROMPT_STEP)

    def problems(self, target: Target, request: PlanRequest) -> Iterator[SpecError]:
        case = Case(
            request, target.facts, target.family, self.device, self.vllm_version, target.model
        )
        yield from (problem for check in _CHECKS for problem in check(case))
        yield from check_disaggregated(target)

    def dtype(self, target: Target, request: PlanRequest) -> tuple[str, Reason]:
        """Return the spec's type, else the checkpoint's own; of float32 it is a half."""
        bfloat = capability(self.device) >= BFLOAT16_SINCE
        if request.dtype != "Auto":
            chosen, reason = request.dtype, "as written in spec.engine.dtype"
        elif target.facts.dtype in {_HALF, "bfloat16"}:
            chosen, reason = target.facts.dtype, "the checkpoint's own"
        else:
            chosen = "bfloat16" if bfloat else _HALF
            reason = f"half of the checkpoint's {target.facts.dtype}"
        if chosen == "bfloat16" and not bfloat:
            raise SpecError(
                "DtypeNeedsGpu",
                f"bfloat16 needs compute capability 8.0, and {self.device.product} has "
                f"{self.device.compute_capability}: use {_HALF}, or another GPU",
                "spec.engine.dtype",
            )
        return chosen, Reason(field="dtype", value=chosen, reason=reason)

    def pool_copies(self, target: Target, request: PlanRequest) -> int:  # noqa: ARG002
        """Return none: there is no Triton."""
        return 0

    def memory(
        self, target: Target, request: PlanRequest, limits: Limits, dtype: str, pools: Pools
    ) -> MemoryPlan:
        return plan_vllm_memory(self.terms(target, request, limits, dtype, BLOCK_TOKENS), pools)

    def terms(
        self, target: Target, request: PlanRequest, limits: Limits, dtype: str, block: int
    ) -> VllmMemoryInputs:
        """Return what goes into the memory; keys and values lie in blocks of so many tokens."""
        engine, encoder = limits.engine, target.facts.encoder
        format_ = _cache_format(request, target.facts)
        if encoder is not None:  # the limit counts frames, of which two are a position
            engine = engine.model_copy(update={"max_encoder_input_len": encoder.max_positions})
        cache = cache_size(
            target, request, engine, dtype, quantization=format_, tokens_per_block=block
        )
        adapters = _adapter_bytes(target.facts, request, dtype, self.vllm_version)
        return VllmMemoryInputs(target, request, limits, dtype, self.device, cache, adapters)

    def late_problems(self, sizes: Sizes) -> Iterator[SpecError]:
        """Yield steps shorter than an image that vLLM encodes, and a share without a full batch."""
        features, step = sizes.limits.features_per_image, sizes.limits.engine.max_num_tokens
        if sizes.request.max_video_frames:
            features = max(features, sizes.limits.request_features)
        if sizes.request.max_images and step < features and sizes.request.prompt_step is None:
            yield SpecError(
                "NumTokensBelowImage",
                f"{step} is below the {features} features of an image or video, which are one "
                "step's: raise it",
                "spec.engine.maxNumTokens",
            )
        memory, length = sizes.memory, sizes.limits.engine.max_seq_len
        if sizes.request.kv_fraction is not None and memory.full_length_sequences < 1:
            yield SpecError(
                "KvFractionTooSmall",
                f"{sizes.request.kv_fraction} leaves {memory.kv_pool_bytes:,} bytes for keys and "
                f"values, less than a sequence of {length} tokens takes: raise it, or use Auto",
                "spec.engine.kvCache.freeGpuMemoryFraction",
            )

    def fit(self, target: Target, sizes: Sizes) -> Fit:
        return suggested(verdict(sizes.memory), target, sizes.request, self)

    def build_parts(self, target: Target, sizes: Sizes) -> BuildParts:  # noqa: ARG002
        """Return what lies beside the checkpoint: adapters, and the vision half of encoders."""
        lora = planned_adapters(target.spec, target.facts) or None
        return BuildParts(lora=lora, disaggregated_encoders=is_disaggregated(target.spec))

    def serving_parts(self, target: Target, sizes: Sizes) -> ServingParts:
        """Return the server's command."""
        split = target.spec.engine.parallelism
        features = feature_folder(target, sizes) if is_disaggregated(target.spec) else None
        return ServingParts(
            # Of disaggregated encoders, which alone read it.
            device="CUDA" if features and not encodes_on_processor(target.spec) else "CPU",
            vllm_serve=VllmServe(
                version=self.vllm_version,
                tensor_parallel=split.tensor,
                pipeline_parallel=split.pipeline,
                nodes=split.nodes if split.nodes > 1 else None,
                port=HTTP_PORT,
                argv=_argv(target, sizes, self.vllm_version, features),
                environment=_ENVIRONMENT | self.settings(target, sizes),
                features=features,
            ),
            pools=MemoryPools(cuda_bytes=0, pinned_bytes=0, shm_bytes=sizes.memory.shm_bytes),
            video_frames=sizes.request.max_video_frames or 0,
            warnings=(
                *(PlanWarning(code="Family", message=note) for note in target.family.notes),
                self.estimate,
                *node_links(target, sizes),
                *((_AUDIO,) if target.facts.audio or transcribes(target.facts) else ()),
            ),
        )

    def settings(self, target: Target, sizes: Sizes) -> dict[str, str]:  # noqa: ARG002
        """Return environment variables of one kind of build alone: of those for GPUs none."""
        return {}

    def reasons(self, sizes: Sizes) -> list[Reason]:
        field, value, why = self.memory_reason(sizes)
        return [
            Reason(field="vllmVersion", value=self.vllm_version, reason=self.version_reason),
            sizes.dtype_reason,
            *sizes.limits.reasons,
            Reason(field=field, value=str(value), reason=why),
        ]

    def memory_reason(self, sizes: Sizes) -> tuple[str, object, str]:
        gpu = sizes.memory.per_gpu[0]
        why = (
            f"{sizes.request.kv_fraction or 'all'} of what "
            f"{gpu.total_bytes - gpu.kv_cache_bytes:,} bytes of other terms leave, the context "
            "outside of it"
        )
        return "gpuMemoryUtilization", sizes.memory.gpu_memory_utilization, why


def _cache_format(request: PlanRequest, facts: ModelFacts) -> str | None:
    for name, values in given(request.extra_args):
        if name == CACHE_TYPE and values and values[0] != "auto":
            return "FP8" if values[0].startswith("fp8") else None
    return facts.quantization.kv_cache if facts.quantization else None


def _argv(target: Target, sizes: Sizes, version: str, features: FeatureFolder | None) -> list[str]:
    """Return the command; names of the extra arguments were checked."""
    limits, split, memory = sizes.limits.engine, target.spec.engine.parallelism, sizes.memory
    images, frames = limits.max_images_per_request, sizes.request.max_video_frames
    part = memory.gpu_memory_utilization
    share = {} if part is None else {"gpu-memory-utilization": part}
    flags: dict[str, str | int | float | None] = {
        "served-model-name": target.model,
        "host": HOST,
        "port": HTTP_PORT,
        "dtype": sizes.dtype,
        "max-model-len": limits.max_seq_len,
        "max-num-seqs": limits.max_batch_size,
        "max-num-batched-tokens": limits.max_num_tokens,
        **share,
        "limit-mm-per-prompt": _json(
            {
                "image": images,
                "video": {"count": 1, "num_frames": frames} if frames else 0,
                "audio": MOST_RECORDINGS if target.facts.audio else int(transcribes(target.facts)),
            }
        ),
        "mm-processor-cache-gb": server_cache_bytes(target.spec) / (1 << 30),
        "tensor-parallel-size": split.tensor,
        "pipeline-parallel-size": split.pipeline,
        # With neither cache vLLM 0.26 gives images names of its own, and finds no features of ours.
        "enable-prefix-caching"
        if sizes.request.reuse or features
        else "no-enable-prefix-caching": None,
        # A checkpoint's generation_config.json may cap answers, which the gateway does.
        "override-generation-config": json.dumps({"max_new_tokens": limits.max_seq_len}),
        # The gateway writes prompts, as on the other backends; nothing else reaches the server.
        "trust-request-chat-template": None,
    }
    if split.nodes > 1:
        # Kubernetes puts the values in that LeaderWorkerSet gives each pod. Without Ray.
        flags |= {
            "distributed-executor-backend": "mp",
            "nnodes": split.nodes,
            "node-rank": "$(LWS_WORKER_INDEX)",
            "master-addr": "$(LWS_LEADER_ADDRESS)",
        }
    if frames:
        flags["media-io-kwargs"] = _json({"video": {"num_frames": frames}})
        if kind_of(_TIMES, version):  # older versions take them from every client
            flags[_TIMES] = None
    if features is not None:
        flags["ec-transfer-config"] = ec_transfer_config(features)
        captured = {"max_cudagraph_capture_size": largest_graph(sizes.request, limits)}
        flags["compilation-config"] = _json(captured)
    if target.spec.model.trust_remote_code:
        flags["trust-remote-code"] = None
    lora = target.facts.lora
    if sizes.request.lora and lora is not None:
        rank = next(one for one in _ranks(version) if one >= lora.rank)
        flags |= {"enable-lora": None, "max-loras": len(lora.adapters), "max-lora-rank": rank}
    argv = ["vllm", "serve", CHECKPOINT_FOLDER]
    for name, value in flags.items():
        argv += [f"--{name}"] if value is None else [f"--{name}", str(value)]
    if sizes.request.lora and lora is not None:
        argv += [
            "--lora-modules",
            *(f"{one}={ADAPTERS_FOLDER}/{one}" for one in sizes.request.lora),
        ]
    return [*argv, *sizes.request.extra_args]


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _ranks(version: str) -> list[int]:
    kind = kind_of("max-lora-rank", version)
    return sorted(int(one) for one in kind)


def _adapter_bytes(facts: ModelFacts, request: PlanRequest, dtype: str, version: str) -> int:
    """Return what slots of all adapters take on each GPU: vLLM changes every matrix of a layer."""
    lora: LoraFacts | None = facts.lora
    if not request.lora or lora is None:
        return 0
    text, ranks = facts.text, _ranks(version)
    rank = next((one for one in ranks if one >= lora.rank), ranks[-1])
    heads, pairs = (
        count * text.head_size for count in (text.attention_heads, text.key_value_heads)
    )
    lengths = 4 * text.hidden_size + 2 * heads + 2 * pairs
    lengths += 3 * (text.hidden_size + text.intermediate_size)
    return len(lora.adapters) * rank * text.layers * lengths * DTYPE_BYTES[dtype]
