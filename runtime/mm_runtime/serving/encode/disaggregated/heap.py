"""Memory of pixels and features is kept between requests.

glibc gives large pieces pages of their own, or gives the heap's end back, and the kernel fills each
page with zeros when it comes again: 2,300 of them a request, which then took 20 ms or more where it
took 10 (features of 2.4 MB, docs/studies/encoders-apart.md). Which of both happens depends on what
else the process has freed before.
"""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

_OWN_PAGES_BYTES = 32 << 20
"""Pieces from here on get pages of their own: the most that glibc takes, and comes to by itself
when pieces of that size are freed."""

_FREE_END_BYTES = 2 * _OWN_PAGES_BYTES
"""Of a heap, kept for the next pieces; as glibc has it beside that."""


def keep_large_pieces() -> None:
    """Fix glibc's thresholds from now on; other C libraries have none and are left alone."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _OWN_PAGES_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _FREE_END_BYTES)
