"""Processes of `tensorrt_llm_bls`, and of all models that each run one request's steps."""

BLS_INSTANCES = 1
"""Processes of `tensorrt_llm_bls` unless the spec says how many: each starts in 0.3 s of a core and
holds 28 MB, while most clients use the gateway, which needs none."""


def bls_instances(requested: int | None) -> int:
    """Return the processes of `tensorrt_llm_bls`: as requested, or one."""
    return BLS_INSTANCES if requested is None else requested


def pipeline_processes(requested: int | None, *, streaming: bool) -> int:
    """Return the processes that each run one request's steps, of all models.

    Without streaming, `ensemble` has as many as `tensorrt_llm_bls`.
    """
    return bls_instances(requested) * (1 if streaming else 2)
