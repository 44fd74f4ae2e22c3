"""The types that engines compute in."""

from typing import Final

DTYPE_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Type, as `EngineSpec.dtype` has it -> bytes of one number."""
