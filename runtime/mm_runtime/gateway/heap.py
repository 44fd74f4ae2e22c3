"""Memory of large bodies goes back to the system when they go.

glibc moves its mmap threshold, between pages of their own and the heap, up to 32 MiB with each
piece that is freed. From then on bodies lie in the heap between what lives long: after an attack
with large ones the process kept three times its memory at rest.
"""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

_OWN_PAGES_BYTES = 1 << 20
"""Pieces from here on get pages of their own; requests without files are smaller."""
_FREE_END_BYTES = 4 << 20
"""Of the heap, kept for the next pieces: a body of 1.4 MB and its parts on the way take 2.4, which
would be given back and come again with each, as 600 new pages."""


def return_large_pieces() -> None:
    """Fix glibc's mmap threshold from now on; other C libraries have none and are left alone."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _OWN_PAGES_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _FREE_END_BYTES)
