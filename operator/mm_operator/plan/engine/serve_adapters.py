"""LoRA adapters on trtllm-serve's PyTorch backend: who applies them, its options, its bytes.

Upstream drops what it cannot apply without an error, and answers as the checkpoint alone: whatever
is not known to be applied is refused here. Sources: #adapters of docs/planning-sources.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from mm_api.documents.model_facts import LoraFacts, TextFacts
from mm_api.documents.model_plan import PlanWarning, Reason
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families import FAMILIES
from mm_api.families.upstream_classes import pytorch_of
from mm_operator.errors import SpecError
from mm_operator.plan.engine.adapters import check_inspected
from mm_operator.plan.engine.case import Case, plan_error
from mm_operator.plan.engine.tables import version_of
from mm_operator.plan.engine.target import Target

_FIELD: Final = "engine.lora"
_STACK: Final = "llm"
_QKV: Final = frozenset({"attn_q", "attn_k", "attn_v"})

_MERGED: Final = "a checkpoint that the adapter was merged into"

_OPTIMAL_RANK, _LARGEST_RANK = 8, 64
"""Defaults of upstream's PeftCacheConfig: optimal_adapter_size and max_adapter_size."""

GRAPHS: Final = PlanWarning(
    code="LoraWithoutGraphs",
    message="decoding runs kernel by kernel while a model has adapters: TensorRT-LLM's CUDA graphs "
    "keep those they were recorded with",
)


def check_served_adapters(now: Case) -> Iterator[SpecError]:
    """Yield what keeps `trtllm-serve` from applying the adapters of a spec."""
    if not now.request.lora:
        return
    served = pytorch_of(now.family, now.facts)
    if served is None:  # it is refused with its backend
        return
    since, name = served.adapters_since, now.family.name
    if since is None:
        applied = sorted(
            one.name for one in FAMILIES.values() if one.pytorch and one.pytorch.adapters_since
        )
        others = [
            f"backend {one}"
            for one, can in (("TensorRT", now.family.adapters), ("Reference", True))
            if can and now.family.is_served(one)
        ]
        yield plan_error(
            _FIELD,
            "LoraNotApplied",
            f"TensorRT-LLM's class of {now.facts.architecture} on PyTorch drops adapters: requests "
            f"with one would be answered by the checkpoint alone, without an error (it applies "
            f"those of {', '.join(applied)}): use {', or '.join([*others, _MERGED])}",
        )
    elif version_of(now.version) < version_of(since):
        yield plan_error(
            _FIELD,
            "LoraTooOld",
            f"TensorRT-LLM applies adapters of {name} on PyTorch since {since}, and the image has "
            f"{now.version}: use a newer image, or backend Reference",
        )
    yield from check_inspected(now.request.lora, now.facts)
    yield from _modules(now)
    yield from _ranks(now)


def adapter_options(lora: LoraFacts | None) -> dict[str, JsonValue]:
    """Return what of the server's file is about adapters; nothing where there are none.

    Every adapter has a slot on the GPU and in host memory, so that none waits for another one's.
    """
    if lora is None:
        return {}
    count = len(lora.adapters)
    modules: list[JsonValue] = [*_changed(lora)]
    return {
        "lora_config": {
            "lora_target_modules": modules,
            "max_lora_rank": lora.rank,
            "max_loras": count,
            "max_cpu_loras": count,
        },
        "cuda_graph_config": None,
    }


@dataclass(frozen=True, slots=True)
class AdapterBytes:
    """What adapters take on one GPU."""

    cache: int
    """The server's cache, allocated at the start."""
    loaded: int
    """What an adapter was read into by its first request; upstream never frees it."""

    @property
    def total(self) -> int:
        """Return both."""
        return self.cache + self.loaded


def adapter_bytes(
    lora: LoraFacts | None, text: TextFacts, *, ranks: int, dtype: str
) -> AdapterBytes:
    """Return the bytes on each GPU of `ranks` that share every layer.

    The cache is as upstream's PeftCacheManager::getPageManagerConfig sizes it: pages of slots, each
    as wide as the smallest module of rank 1.
    """
    if lora is None:
        return AdapterBytes(0, 0)
    modules, size, layers = _changed(lora), DTYPE_BYTES[dtype], text.layers
    one = [sum(_lengths(text, name, ranks)) for name in modules]
    if not one or not min(one):
        return AdapterBytes(0, 0)
    page, widest = min(one), max(one)
    filled = len(modules) + (len(_QKV - {*modules}) if _QKV & {*modules} else 0)
    slots = lora.rank * layers * filled * len(lora.adapters) * -(-widest // page)
    each = sum(min(_OPTIMAL_RANK, lora.rank) * -(-width // page) for width in one)
    in_page = max(each * layers, -(-min(_LARGEST_RANK, lora.rank) * widest // page))
    cache = -(-slots // in_page) * in_page * page * size
    unsplit = sum(sum(_lengths(text, name, 1)) for name in modules)
    return AdapterBytes(cache, len(lora.adapters) * lora.rank * layers * unsplit * size)


def served_adapter_bytes(target: Target, *, ranks: int, dtype: str) -> AdapterBytes:
    """Return the bytes of a model's adapters on each GPU; none on other backends than PyTorch."""
    engine = target.spec.engine
    lora = target.facts.lora if engine.backend == "PyTorch" and engine.lora else None
    return adapter_bytes(lora, target.facts.text, ranks=ranks, dtype=dtype)


def adapter_reasons(target: Target, *, ranks: int, dtype: str) -> Iterator[Reason]:
    """Yield how many bytes adapters take and why; nothing where there are none."""
    lora, found = target.facts.lora, served_adapter_bytes(target, ranks=ranks, dtype=dtype)
    if lora is None or not found.total:
        return
    yield Reason(
        field="loraCache",
        value=f"{found.total}",
        reason=f"{len(lora.adapters)} adapters of rank {lora.rank} at the most: {found.cache} "
        f"bytes of TensorRT-LLM's cache and {found.loaded} that it reads them into, on each GPU, "
        "among the buffers",
    )


def _changed(lora: LoraFacts) -> list[str]:
    return lora.modules.get(_STACK, [])


def _lengths(text: TextFacts, module: str, ranks: int) -> tuple[int, int]:
    """Return the lengths of a module's input and output on one of `ranks` GPUs.

    Those of modules that only refused models have are bounds.
    """
    hidden, wide = text.hidden_size, text.intermediate_size // ranks
    heads = text.attention_heads * text.head_size // ranks
    pairs = text.key_value_heads * text.head_size // ranks
    known = {
        "attn_q": (hidden, heads),
        "attn_k": (hidden, pairs),
        "attn_v": (hidden, pairs),
        "attn_dense": (heads, hidden),
        "mlp_h_to_4h": (hidden, wide),
        "mlp_gate": (hidden, wide),
        "mlp_4h_to_h": (wide, hidden),
    }
    return known.get(module, (max(hidden, heads, wide),) * 2)


def _modules(now: Case) -> Iterator[SpecError]:
    """Yield an error for a module whose length upstream does not know.

    LoraModule::createLoraModules takes the output of attention for as wide as the hidden state.
    """
    text, lora = now.facts.text, now.facts.lora
    heads = text.attention_heads * text.head_size
    if lora is not None and heads != text.hidden_size and "attn_dense" in _changed(lora):
        yield plan_error(
            _FIELD,
            "LoraModules",
            f"an adapter changes o_proj, whose input has {heads} numbers here, and TensorRT-LLM on "
            f"PyTorch would read it as {text.hidden_size}: train without o_proj, or use backend "
            "Reference",
        )


def _ranks(now: Case) -> Iterator[SpecError]:
    """Yield errors for splits and types that upstream shows no adapters with."""
    tensor, stored = now.request.tensor_parallel, now.facts.quantization
    if now.facts.text.key_value_heads % tensor:
        yield plan_error(
            "engine.parallelism.tensor",
            "LoraKeyValueHeads",
            f"{now.facts.text.key_value_heads} key-value heads are repeated on {tensor} GPUs, "
            "which TensorRT-LLM does not do with adapters: use a divisor, or remove engine.lora",
        )
    if now.request.pipeline_parallel > 1:
        yield plan_error(
            "engine.parallelism.pipeline",
            "LoraPipelineParallel",
            "adapters are not served by several stages on PyTorch: use tensor parallelism, or "
            "remove engine.lora",
        )
    if stored is not None and stored.weights == "NVFP4":
        yield plan_error(
            _FIELD,
            "LoraQuantized",
            "adapters are not served beside NVFP4 weights: use the checkpoint that these were "
            "made of, or one of FP8",
        )
