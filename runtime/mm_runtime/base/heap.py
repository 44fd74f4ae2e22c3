"""Where large pieces of memory lie: two policies for glibc's malloc, which moves its thresholds.

It raises its mmap threshold, between pages of their own and the heap, up to 32 MiB with each piece
that is freed. Other C libraries have no thresholds and are left alone.
"""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

_OWN_PAGES_BYTES = 1 << 20
"""Pieces from here on go back to the system; requests without files are smaller."""
_FREE_END_BYTES = 4 << 20
"""Free end of the heap, kept for the next pieces; a body of 1.4 MB and its parts on the way take
2.4, which would be given back and come again with each, as 600 new pages."""

_MOST_OWN_PAGES_BYTES = 32 << 20
"""The most that glibc takes, and comes to by itself when pieces of that size are freed."""


def return_large_pieces() -> None:
    """Return the memory of large bodies to the system when they go.

    Otherwise bodies lie in the heap between what lives long: after an attack with large ones a
    gateway kept three times its memory at rest.
    """
    _fix_thresholds(_OWN_PAGES_BYTES, _FREE_END_BYTES)


def keep_large_pieces() -> None:
    """Keep the memory of pixels and features between requests.

    Otherwise the kernel fills each page with zeros when it comes again: 2,300 of them a request,
    which then took 20 ms or more where it took 10 (features of 2.4 MB,
    docs/studies/disaggregated-encoders.md). It depends on what else the process has freed before.
    """
    # glibc, too, keeps twice its mmap threshold of a heap's end.
    _fix_thresholds(_MOST_OWN_PAGES_BYTES, 2 * _MOST_OWN_PAGES_BYTES)


def _fix_thresholds(own_pages_bytes: int, free_end_bytes: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, own_pages_bytes)
        mallopt(_M_TRIM_THRESHOLD, free_end_bytes)
