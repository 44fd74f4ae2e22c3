"""LoRA adapters on trtllm-serve's PyTorch backend: who applies them, its options, its bytes.

Upstream drops what it cannot apply without an error, and answers as the checkpoint alone: whatever
is not known to be applied is refused here. Sources: #adapters of docs/planning-sources.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Final

from pydantic import JsonValue

from mm_api.backends import REFERENCE, TENSORRT
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
            for one, can in ((TENSORRT.name, now.family.text.adapters), (REFERENCE.name, True))
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


def adapter_options(target: Target, *, ranks: int) -> dict[str, JsonValue]:
    """Return what of the server's file is about adapters; nothing where there are none.

    Every adapter has its pages on each of `ranks` GPUs and in host memory, so that none waits for
    another one's.
    """
    lora = target.facts.lora
    if lora is None or not target.spec.engine.lora or not _changed(lora):
        return {}
    pages = adapter_pages(lora, target.facts.text, ranks=ranks)
    modules: list[JsonValue] = [*_served_modules(lora)]
    return {
        "lora_config": {
            "lora_target_modules": modules,
            "max_lora_rank": lora.rank,
            "max_loras": pages.loras,
            "max_cpu_loras": pages.loras,
        },
        "cuda_graph_config": None,
    }


@dataclass(frozen=True, slots=True)
class AdapterPages:
    """How upstream's cache is cut, as PeftCacheManager::getPageManagerConfig does it."""

    width: int
    """Numbers of a slot: those of the smallest module of rank 1."""
    slots: int
    """Slots of a page."""
    largest: int
    """Slots of an adapter's largest module in one layer, which are in one page."""
    loras: int
    """What to name as `max_loras`: more than there are adapters where pages stay part empty."""
    count: int
    """Pages for so many."""


def adapter_pages(lora: LoraFacts, text: TextFacts, *, ranks: int) -> AdapterPages:
    """Return the pages of the cache on each GPU of `ranks` that share every layer.

    `max_loras` is a number of slots upstream, and an adapter has pages of its own: a module that
    does not fit into the rest of a page begins the next (LoraCache::determineNumPages). What every
    page but an adapter's last one holds at least is counted, whatever the order in its file.
    """
    one = [sum(_lengths(text, name, ranks)) for name in _served_modules(lora)]
    width, widest, layers = min(one), max(one), text.layers
    each = sum(min(_OPTIMAL_RANK, lora.rank) * -(-numbers // width) for numbers in one)
    slots = max(each * layers, -(-min(_LARGEST_RANK, lora.rank) * widest // width))
    rows = [-(-lora.rank * numbers // width) for numbers in one]
    common = gcd(*rows)
    held = max(1, -(-(slots - max(rows) + 1) // common)) * common
    wanted = len(lora.adapters) * -(-sum(rows) * layers // held)
    of_one = lora.rank * layers * len(one) * -(-widest // width)
    loras = max(len(lora.adapters), ((wanted - 1) * slots) // of_one + 1)
    return AdapterPages(width, slots, max(rows), loras, -(-of_one * loras // slots))


@dataclass(frozen=True, slots=True)
class AdapterBytes:
    """What adapters take on one GPU."""

    cache: int
    """The server's cache, allocated at the start."""
    loaded: int
    """What an adapter was read into by its first request; upstream never frees it."""

    @property
    def total(self) -> int:
        return self.cache + self.loaded


def adapter_bytes(
    lora: LoraFacts | None, text: TextFacts, *, ranks: int, dtype: str
) -> AdapterBytes:
    """Return the bytes on each GPU of `ranks` that share every layer."""
    if lora is None or not _changed(lora):
        return AdapterBytes(0, 0)
    size, pages = DTYPE_BYTES[dtype], adapter_pages(lora, text, ranks=ranks)
    unsplit = sum(sum(_lengths(text, name, 1)) for name in _changed(lora))
    return AdapterBytes(
        pages.count * pages.slots * pages.width * size,
        len(lora.adapters) * lora.rank * text.layers * unsplit * size,
    )


def served_adapter_bytes(target: Target, *, ranks: int, dtype: str) -> AdapterBytes:
    """Return the bytes of a model's adapters on each GPU; none on other backends than PyTorch."""
    engine = target.spec.engine
    lora = (
        target.facts.lora
        if engine.traits.uses_trtllm and engine.traits.stages and engine.lora
        else None
    )
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


def _served_modules(lora: LoraFacts) -> list[str]:
    """Return the modules of the server's file: all of q, k and v where one is changed.

    Upstream counts the slots of all three, and would fill those that are not in it with zeros of
    the hidden size, which is not that of k and v.
    """
    changed = {*_changed(lora)}
    return sorted(changed | _QKV if changed & _QKV else changed)


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
            f"PyTorch would read it as {text.hidden_size}: train without o_proj, or use "
            "backend Reference",
        )


def _ranks(now: Case) -> Iterator[SpecError]:
    """Yield errors for splits and types that upstream shows no adapters with."""
    tensor, stored, lora = now.request.tensor_parallel, now.facts.quantization, now.facts.lora
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
    if lora is not None and _changed(lora):
        pages = adapter_pages(lora, now.facts.text, ranks=tensor)
        if pages.largest > pages.slots:
            yield plan_error(
                _FIELD,
                "LoraRank",
                f"a module of rank {lora.rank} takes {pages.largest} slots of TensorRT-LLM's cache "
                f"of adapters, and a page has {pages.slots}: use adapters of a lower rank, or "
                "backend Reference",
            )
    if stored is not None and stored.weights == "NVFP4":
        yield plan_error(
            _FIELD,
            "LoraQuantized",
            "adapters are not served beside NVFP4 weights: use the checkpoint that these were "
            "made of, or one of FP8",
        )
