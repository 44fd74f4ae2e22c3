"""Triton's pools are computed for the requests that the gateway lets in."""

from mm_api.families.image_layouts.layout import FIXED_SIZE_FACTOR, VARIABLE_SIZE_FACTOR
from mm_operator.plan.engine.pools import bound_of, cuda_pool_bytes, shm_bytes
from mm_operator.plan.engine.processes import pipeline_processes
from mm_operator.plan.engine.units import MIB
from support.cases import cases


@cases(
    "expected cap queue",
    {
        "engine-and-queue-bound": ((24, "ExecutorQueue"), 100, 16),
        "both-bound-alike": ((24, "GatewayConcurrency"), 24, 16),
        "gateway-bounds": ((10, "GatewayConcurrency"), 10, 16),
        "endless-queue-leaves-the-gateway": ((100, "GatewayConcurrency"), 100, 0),
        "no-gateway-leaves-the-queue": ((24, "ExecutorQueue"), 0, 16),
    },
)
def test_requests_are_bounded(expected: tuple[int, str], cap: int, queue: int) -> None:
    """The smaller of the gateway's number and of what is decoded or waits inside the engine."""
    assert expected == bound_of(cap, queue, 8)


@cases(
    "expected output live factor",
    {
        "never-below-64-mib": (64 * MIB, 163_840, 9, FIXED_SIZE_FACTOR),
        "llava-1.5-7b": (181 * MIB, 4_718_592, 32, FIXED_SIZE_FACTOR),
        "sizes-vary": (217 * MIB, 4_718_592, 32, VARIABLE_SIZE_FACTOR),
        "rounded-up-to-512": (195_691_008, 4_718_593, 33, FIXED_SIZE_FACTOR),
    },
)
def test_cuda_pool(expected: int, output: int, live: int, factor: float) -> None:
    assert expected == cuda_pool_bytes(live, output, factor)


@cases(
    "expected image_size output ranks",
    {
        "never-below-256-mib": (256 * MIB, 56, 8192, 1),
        "llava-1.5-7b": (312 * MIB, 336, 4_718_592, 1),
        "ranks-talk-to-each-other": ((312 + 1024) * MIB, 336, 4_718_592, 2),
    },
)
def test_shared_memory(expected: int, image_size: int, output: int, ranks: int) -> None:
    """Shared memory holds pixels twice and features of every live request."""
    actual = shm_bytes(
        images=1,
        image_size=image_size,
        output_bytes=output,
        live_requests=32,
        pipeline_processes=0,
        ranks=ranks,
    )
    assert expected == actual


@cases(
    "expected requested streaming",
    {
        "planned": (1, None, True),
        "ensemble-has-its-own-without-streaming": (2, None, False),
        "as-requested": (6, 3, False),
        "none": (0, 0, False),
    },
)
def test_pipeline_processes(expected: int, requested: int | None, *, streaming: bool) -> None:
    """Processes of one request each are those of every model that runs the steps."""
    assert expected == pipeline_processes(requested, streaming=streaming)
