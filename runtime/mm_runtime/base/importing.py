"""Imports of torch and transformers without Python's cyclic garbage collector.

Each collection walks all that was imported, which is no garbage: 0.7 s of an import of 2.8 s.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import in the block, and collect again behind it: never what the block has imported."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
