"""PURE: which encoder gets an image: always the same one, while it is there.

Highest random weight (Thaler and Ravishankar, 1998): each pair of encoder and image has a
weight, the largest wins. One image is so encoded and cached by one encoder for all servers; when an
encoder leaves, only its own images move to others.
"""

import hashlib
from collections.abc import Iterable


def order(key: bytes, encoders: Iterable[str]) -> list[str]:
    """Return the encoders in the order in which they are called for an image.

    `encoders`: their addresses, in any order.
    """
    return sorted(encoders, key=lambda one: _weight(key, one), reverse=True)


def _weight(key: bytes, encoder: str) -> bytes:
    return hashlib.blake2b(encoder.encode(), key=key, digest_size=8).digest()
