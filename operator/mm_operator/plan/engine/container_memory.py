"""What processes take of host memory, and the memory limit of a container with them."""

from collections.abc import Mapping

from mm_api.documents.model_plan import HostMemory
from mm_api.documents.serving_plan import MemoryPools
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.plan.engine.request import Target

PROCESS_BYTES = 704 << 20
"""What the processes take beside the plan's terms: measured 43 MB for the server, 38 MB for each of
three small stubs, 28 MB for each of four of `tensorrt_llm_bls`, 386 MB for the one with torch,
rounded up. No part of the verdict: the libraries of another image may take less."""

INSTANCE_BYTES = 256 << 20
"""Memory of a further process of pre- or postprocessing: 38 MB (above), and 222 MB that the
tokenizers library took at most while it read a random BPE vocabulary of 256,000 entries."""

ENCODER_PROCESS_BYTES = 192 << 20
"""The same of an encoder's pod with ONNX Runtime: measured 39 MB for the server, 103 MB for its one
stub, 37 MB for what supervises them. With another vision engine it loads torch as well."""

CUDA_PROCESS_BYTES = 4 << 30
"""Memory of each process with a CUDA context, a bound that was not measured: torch with CUDA has
4.0 GB of files, and takes as much where every page of them is private."""

TRTLLM_PROCESS_BYTES = 2 * CUDA_PROCESS_BYTES
"""The same with TensorRT and TensorRT-LLM beside torch. Chosen, not measured."""

_MARGIN_PART = 8
"""An eighth of all of it for what no term counts, such as fragments that allocators keep. Chosen,
not measured: under 16 clients the tiny model's server took 637 MiB at most, of a limit of 1,485."""


def memory_limit(needed: int, pools: MemoryPools) -> int:
    """Return the memory limit of a container: every bound reached at one time.

    `pools`: of its server. Files in /dev/shm count to the container that writes them, and outputs
    lie in host memory without a GPU, and where the CUDA pool is full.
    """
    full = needed + pools.cuda_bytes + pools.pinned_bytes + pools.shm_bytes
    return full + full // _MARGIN_PART


def further_bytes(spec: MultimodalModelSpec) -> int:
    """Return what further processes of pre- and postprocessing take beside `PROCESS_BYTES`."""
    triton = spec.runtime.triton
    counts = (triton.preprocessing_instance_count, triton.postprocessing_instance_count)
    return sum((count or 1) - 1 for count in counts) * INSTANCE_BYTES


def planned_host(
    target: Target, pools: MemoryPools, terms: Mapping[str, int], **beside: int
) -> HostMemory:
    """Return host memory: `terms`, which the container requests, and bounds `beside` them."""
    beside["process_bytes"] += further_bytes(target.spec)
    total = sum(terms.values())
    return HostMemory(
        **terms,
        **beside,
        total_bytes=total,
        planned_limit_bytes=memory_limit(total + sum(beside.values()), pools),
        limit_bytes=target.spec.runtime.resources.memory_limit,
    )


def raised(host: HostMemory, **more: int) -> HostMemory:
    """Return host memory with more in some of its bounds, which the limit counts."""
    added = sum(more.values())
    more["planned_limit_bytes"] = added + added // _MARGIN_PART
    return host.model_copy(update={name: getattr(host, name) + more[name] for name in more})
