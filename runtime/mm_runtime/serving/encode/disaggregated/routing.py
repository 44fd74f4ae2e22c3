"""PURE: which encoder gets a picture: always the same one, while it is there.

Highest random weight (Thaler and Ravishankar, 1998): each pair of encoder and picture has a
weight, the largest wins. One picture is so encoded and cached by one encoder, whichever server
asks for it; when an encoder leaves, only its own pictures move to others.
"""

import hashlib
from collections.abc import Iterable


def order(key: bytes, encoders: Iterable[str]) -> list[str]:
    """Return the encoders in the order in which they are asked about a picture.

    Args:
        key: digest of the picture.
        encoders: their addresses, in any order.
    """
    return sorted(encoders, key=lambda one: _weight(key, one), reverse=True)


def _weight(key: bytes, encoder: str) -> bytes:
    return hashlib.blake2b(encoder.encode(), key=key, digest_size=8).digest()
