"""Passes of fixed shapes as CUDA graphs, which a GPU starts at once; elsewhere they just run."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from mm_runtime.serving.cuda_calls import CudaCalls, open_cuda_calls
from mm_runtime.serving.device import new_stream

WARM_UP_PASSES = 2
"""Before a capture: libraries choose their kernels and take their workspaces."""

Result = TypeVar("Result")


def capture_on(
    device: torch.device,
) -> Callable[[Callable[[], Result]], Callable[[], Result]]:
    """Return what captures passes; on a processor it returns them as they are.

    All are captured in one pool of memory and on one stream: cuBLAS keeps a workspace of 32 MiB for
    each stream that it was called on. What a captured pass returns is overwritten by its next run.
    """
    stream = new_stream(device)
    if stream is None:
        return lambda computed: computed
    pool = torch.cuda.graph_pool_handle()
    calls = open_cuda_calls()

    def capture(computed: Callable[[], Result]) -> Callable[[], Result]:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_PASSES):
                computed()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # Other threads of the process may use the GPU meanwhile.
        captured = torch.cuda.graph(graph, pool, stream, capture_error_mode="thread_local")
        with captured:
            result = computed()

        launch = _launching(graph, calls)

        def replayed() -> Result:
            launch()
            return result

        return replayed

    return capture


def _launching(graph: Any, calls: CudaCalls | None) -> Callable[[], None]:
    """Return what launches a captured graph, which draws no random numbers."""
    # Of torch 2.11 and 2.15; others may not give the graph out.
    instantiated = getattr(graph, "raw_cuda_graph_exec", None)
    if calls is None or instantiated is None:
        replay: Callable[[], None] = graph.replay
        return replay
    known = instantiated()

    def launch(graph: Any = graph) -> None:
        del graph  # as an argument it lives as long as this function
        calls.launch(known)

    return launch
