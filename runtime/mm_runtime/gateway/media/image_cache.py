"""Images that were decoded before, as small as the engine needs them.

A chat sends its images again with every turn. The encoder's features of them are cached in the
server by what the pixels are; receiving a known image of 50 million pixels would still cost its
decoding and resizing, which can take longer than encoding it. Here they are known by the digest of
their encoded bytes: equal bytes and equal settings give equal pixels.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Key = tuple[bytes, Hashable]


class DecodedImageCache:
    """Reduced images by their bytes, the longest unused going first; for any thread."""

    def __init__(self, max_bytes: int) -> None:
        """Keep at most so many bytes of pixels; 0 keeps none."""
        self._max_bytes = max_bytes
        self._held = 0
        self._images: OrderedDict[Key, Pixels] = OrderedDict()
        self._lock = threading.Lock()

    def through(
        self, encoded: bytes, setting: Hashable, reduce: Callable[[], Pixels], salt: str = ""
    ) -> Pixels:
        """Return the reduced image: a known one, else what `reduce` returns, kept.

        Args:
            encoded: the image's file.
            setting: what its pixels depend on besides, as the number of images of its request: some
                families make several smaller than one.
            reduce: decodes and reduces it; what it raises is passed on and nothing is kept.
            salt: an image is known to requests of the same one only.

        Returns:
            uint8[height, width, 3], read-only.
        """
        if not self._max_bytes:
            return reduce()
        key = _key(encoded, setting, salt)
        known = self._known(key)
        if known is not None:
            return known
        pixels = reduce()
        pixels.setflags(write=False)
        self._keep(key, pixels)
        return pixels

    def find(self, encoded: bytes, setting: Hashable, salt: str = "") -> Pixels | None:
        """Return the reduced image where it is known; see `through`."""
        # Without a digest of its bytes where nothing is.
        return self._known(_key(encoded, setting, salt)) if self._images else None

    def _known(self, key: Key) -> Pixels | None:
        with self._lock:
            known = self._images.get(key)
            if known is not None:
                self._images.move_to_end(key)
            return known

    def _keep(self, key: Key, pixels: Pixels) -> None:
        if pixels.nbytes > self._max_bytes:
            return
        with self._lock:
            if key in self._images:  # another thread decoded the same meanwhile
                return
            self._images[key] = pixels
            self._held += pixels.nbytes
            while self._held > self._max_bytes:
                _, dropped = self._images.popitem(last=False)
                self._held -= dropped.nbytes


def _key(encoded: bytes, setting: Hashable, salt: str) -> Key:
    found = hashlib.sha256(salt.encode() + b"\0")
    found.update(encoded)
    return found.digest(), setting
