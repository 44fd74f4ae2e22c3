"""How many processor threads a model computes with."""

SMALL_MODEL_BYTES = 256 << 20
"""Below this a step is over before threads have met: on two busy cores a decode step of the tiny
model (5.7 MB, eight requests) took 2.5 ms with one thread and 18 to 29 ms with two, because a
thread that is not scheduled keeps the other one waiting."""


def threads_for(weight_bytes: int, cores: int) -> int:
    """Return one thread for a small model, all of these cores for a large one."""
    return 1 if weight_bytes < SMALL_MODEL_BYTES else max(1, cores)
