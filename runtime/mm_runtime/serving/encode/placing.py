"""Where the features of a request are when they leave the encoder's process."""

from collections.abc import Callable

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.serving.encode.encoding import Outputs
from mm_runtime.serving.encode.gpu_features import are_gpu_tensors
from mm_runtime.serving.encode.queue import Done
from mm_runtime.serving.tensor_names import HOST_FEATURES
from mm_runtime.serving.tensors import Tensors

Placed = Callable[[Tensors, Done], Done]
"""Inputs of a request and what takes its outputs -> what takes them from the encoder."""


def placing(serving: ServingPlan, engine: EngineManifest) -> Placed:
    """Return what moves features to where the language model computes, before they leave.

    Where no features are GPU tensors, they stay arrays.

    Raises:
        ValueError: the plan needs a GPU and there is none.
    """
    if not are_gpu_tensors(engine, serving):
        return lambda _, done: done
    # Torch is loaded for a GPU only: without one this process stays small.
    from mm_runtime.serving.device import CPU, open_device  # noqa: PLC0415
    from mm_runtime.serving.encode.hand_over import HandOver  # noqa: PLC0415

    dtype = engine.plan.engine.dtype
    announced = engine.plan.engine.traits.runs_checkpoints
    to_gpu = HandOver(open_device("CUDA"), dtype, announced=announced)
    to_host = HandOver(CPU, dtype, announced=False)

    def placed(inputs: Tensors, done: Done) -> Done:
        hand_over = to_host if HOST_FEATURES in inputs else to_gpu

        def place(outcome: Outputs | Exception) -> None:
            if not isinstance(outcome, Exception):
                try:
                    outcome = hand_over.place(outcome)
                except Exception as error:  # noqa: BLE001 (the client gets it, and others continue)
                    outcome = error
            done(outcome)

        return place

    return placed
