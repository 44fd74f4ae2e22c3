"""One sizing: what is asked, on one GPU, in numbers. The search for what fits calls it often."""

from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import MemoryPlan, Reason
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families.family import Family
from mm_operator.errors import SpecError
from mm_operator.plan.engine.cache import cache_size
from mm_operator.plan.engine.dtypes import choose_dtype
from mm_operator.plan.engine.limits import Sized, plan_limits
from mm_operator.plan.engine.memory import Terms, plan_memory
from mm_operator.plan.engine.pool import Pools, plan_pools
from mm_operator.plan.engine.request import Ask
from mm_operator.plan.engine.tables import era, table, version_of


@dataclass(frozen=True, slots=True)
class Subject:
    """What stays the same while sizes are tried."""

    facts: ModelFacts
    family: Family
    gpu: GpuModel
    version: str


@dataclass(frozen=True, slots=True)
class EngineSizing:
    """The result."""

    sized: Sized
    dtype: str
    dtype_reason: Reason
    pools: Pools
    memory: MemoryPlan


def size(ask: Ask, subject: Subject) -> EngineSizing:
    """Return limits, pools and memory.

    Raises:
        SpecError: the spec contradicts the checkpoint, the family, the GPU or itself.
    """
    facts, family = subject.facts, subject.family
    dtype, reason = choose_dtype(ask.dtype, family, subject.gpu, subject.version)
    sized = plan_limits(ask, facts, family)
    pools = plan_pools(ask, facts, family, sized, dtype)
    if pools.pool.bytes >= subject.gpu.memory_bytes:
        raise SpecError(
            "PoolAboveGpuMemory",
            f"a CUDA pool of {pools.pool.bytes:,} bytes is above the GPU's "
            f"{subject.gpu.memory_bytes:,}: Triton would run without a pool; lower "
            "spec.runtime.maxConcurrency or spec.engine.maxBatchSize",
            "spec.runtime.memoryPools.cuda",
        )
    blocks = era(table("tools")["tokensPerBlock"], version_of(subject.version))["tokens"]
    cache = cache_size(
        facts,
        family,
        sized.limits,
        ranks=ask.tensor_parallel,
        stages=ask.pipeline_parallel,
        dtype=dtype,
        quantization=ask.quantization,
        tokens_per_block=blocks,
        cross_fraction=ask.cross_fraction,
    )
    terms = Terms(ask, facts, family, sized.limits, dtype, subject.gpu, pools, cache)
    return EngineSizing(sized, dtype, reason, pools, plan_memory(terms))
