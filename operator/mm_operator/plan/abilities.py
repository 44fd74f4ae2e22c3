"""What this version can plan and cannot carry out yet, in one table.

It is asked after planning and before any Job: the numbers are told, and no GPU is taken for them.
Whoever makes a backend work in the cluster deletes its row.
"""

BUILD_LACKS = {
    "PyTorch": "this version does not serve with TensorRT-LLM on PyTorch: set spec.engine.backend "
    "to Reference",
}
"""Backend -> why its build does not start, and what to do."""


def lack(backend: str) -> str:
    """Return why a planned engine is not built; empty when it is."""
    return BUILD_LACKS.get(backend, "")
