"""What allocators round to."""

MIB = 1 << 20
GIB = 1 << 30

CUDA_ROUNDING_BYTES = 512
"""Triton's allocator rounds the pool and every allocation up to this."""


def ceil_to(value: int, unit: int) -> int:
    return -(-value // unit) * unit
