"""Triton's pools are computed for the requests that the gateway lets in."""

import pytest

from mm_api.families.family import FIXED_SIZE_FACTOR, VARIABLE_SIZE_FACTOR
from mm_operator.plan.engine.pools import bound_of, cuda_pool_bytes, shm_bytes
from mm_operator.plan.engine.processes import pipeline_processes
from mm_operator.plan.engine.units import MIB


@pytest.mark.parametrize(
    ("expected", "cap", "queue"),
    [
        pytest.param((24, "ExecutorQueue"), 100, 16, id="engine-and-queue-bound"),
        pytest.param((24, "GatewayConcurrency"), 24, 16, id="both-bound-alike"),
        pytest.param((10, "GatewayConcurrency"), 10, 16, id="gateway-bounds"),
        pytest.param((100, "GatewayConcurrency"), 100, 0, id="endless-queue-leaves-the-gateway"),
        pytest.param((24, "ExecutorQueue"), 0, 16, id="no-gateway-leaves-the-queue"),
    ],
)
def test_requests_are_bounded(expected: tuple[int, str], cap: int, queue: int) -> None:
    """The smaller of the gateway's number and of what is decoded or waits inside the engine."""
    assert expected == bound_of(cap, queue, 8)


@pytest.mark.parametrize(
    ("expected", "output", "live", "factor"),
    [
        pytest.param(64 * MIB, 163_840, 9, FIXED_SIZE_FACTOR, id="never-below-64-mib"),
        pytest.param(181 * MIB, 4_718_592, 32, FIXED_SIZE_FACTOR, id="llava-1.5-7b"),
        pytest.param(217 * MIB, 4_718_592, 32, VARIABLE_SIZE_FACTOR, id="sizes-vary"),
        pytest.param(195_691_008, 4_718_593, 33, FIXED_SIZE_FACTOR, id="rounded-up-to-512"),
    ],
)
def test_cuda_pool(expected: int, output: int, live: int, factor: float) -> None:
    """Room for the tables of all live requests with a margin, in Triton's units, and 1 MiB."""
    assert expected == cuda_pool_bytes(live, output, factor)


@pytest.mark.parametrize(
    ("expected", "image_size", "output", "ranks"),
    [
        pytest.param(256 * MIB, 56, 8192, 1, id="never-below-256-mib"),
        pytest.param(312 * MIB, 336, 4_718_592, 1, id="llava-1.5-7b"),
        pytest.param((312 + 1024) * MIB, 336, 4_718_592, 2, id="ranks-talk-to-each-other"),
    ],
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


@pytest.mark.parametrize(
    ("expected", "requested", "streaming"),
    [
        pytest.param(1, None, True, id="planned"),
        pytest.param(2, None, False, id="ensemble-has-its-own-without-streaming"),
        pytest.param(6, 3, False, id="as-requested"),
        pytest.param(0, 0, False, id="none"),
    ],
)
def test_pipeline_processes(expected: int, requested: int | None, *, streaming: bool) -> None:
    """Processes of one request each are those of every model that runs the steps."""
    assert expected == pipeline_processes(requested, streaming=streaming)
