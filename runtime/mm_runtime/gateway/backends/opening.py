"""Which engine a serving plan means."""

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.gateway.backends.triton import TritonEngine
from mm_runtime.gateway.backends.trtllm_serve import TrtllmServeEngine
from mm_runtime.repository.layout import streaming_ensemble_name


def open_engine(serving: ServingPlan, triton: str) -> TritonEngine | TrtllmServeEngine:
    """Return the engine of a pod; no request is sent yet.

    Args:
        serving: how the pod serves.
        triton: host:port of Triton's gRPC endpoint, for the backends that have one.
    """
    plan = serving.trtllm_serve
    if plan is None:
        name = streaming_ensemble_name(
            streaming=serving.streaming, bls_instances=serving.bls_instances
        )
        return TritonEngine(triton, name)
    return TrtllmServeEngine(
        f"127.0.0.1:{plan.port}",
        serving.model,
        request_seconds=serving.gateway.request_timeout_seconds,
        takes_salt=plan.takes_salt,
    )
