"""Images that were decoded before, as small as the engine needs them.

A chat sends its images again with every turn. The encoder's features of them are cached in the
server by what the pixels are; receiving a known image of 50 million pixels would still cost its
decoding and resizing, which can take longer than encoding it. Here they are known by the digest of
their encoded bytes: equal bytes and equal settings give equal pixels.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.media.as_sent import held_bytes

Pixels = NDArray[np.uint8]
Key = tuple[bytes, Hashable]


class DecodedImageCache:
    """Reduced images by their bytes, the longest unused going first; for one thread."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = 0
        self._images: OrderedDict[Key, Pixels] = OrderedDict()

    def key(self, encoded: bytes, setting: Hashable, salt: str = "") -> Key | None:
        """Return what an image is known by, for any thread; None: none is kept.

        `setting`: what its pixels depend on besides, as the number of images of its request: some
        families make several smaller than one. `salt`: an image is known to requests of the same
        one only.
        """
        if not self._max_bytes:
            return None
        found = hashlib.sha256(salt.encode() + b"\0")
        found.update(encoded)
        return found.digest(), setting

    def find(self, key: Key | None) -> Pixels | None:
        """Return the reduced image, uint8[height, width, 3] and read-only, where it is known."""
        if key is None or (known := self._images.get(key)) is None:
            return None
        self._images.move_to_end(key)
        return known

    def keep(self, key: Key | None, pixels: Pixels) -> None:
        """Keep a reduced image, which is read-only from then on."""
        if key is None or held_bytes(pixels) > self._max_bytes:
            return
        if key in self._images:  # another request decoded the same meanwhile
            return
        pixels.setflags(write=False)
        self._images[key] = pixels
        self._held += held_bytes(pixels)
        while self._held > self._max_bytes:
            _, dropped = self._images.popitem(last=False)
            self._held -= held_bytes(dropped)
