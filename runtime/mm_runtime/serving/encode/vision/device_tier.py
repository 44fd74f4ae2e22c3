"""Features of the images that were requested last, on the device where an encoder makes them.

The cache in host memory (`cache`) knows what is kept; this holds copies of some of it, so that a
known image's features need not be copied to a GPU again. Its memory is taken once, as places of one
size: entries of several sizes would leave gaps that no plan has counted.
"""

import logging
from collections import OrderedDict
from typing import Any

from mm_runtime.serving.errors import is_out_of_memory

logger = logging.getLogger(__name__)


class DeviceTier:
    """Copies of features by key, the least recently used replaced first; used by one thread."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._places: Any = None
        """Tensor [places, rows, hidden] of torch, once there are features."""

        self._free: list[int] = []
        self._held: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: bytes) -> Any | None:
        """Return the features of a key, which the next `put` may overwrite."""
        place = self._held.get(key)
        if place is None:
            return None
        self._held.move_to_end(key)
        return self._places[place]

    def put(self, key: bytes, features: Any, device: Any) -> None:
        """Copy features to the device; those of another shape or type than the first are left out.

        `features`: tensor [rows, hidden] of torch, on any device. `device`: the first call's is
        that of all.
        """
        self.drop(key)
        if self._places is None and not self._take(features, device):
            return
        if features.shape != self._places.shape[1:] or features.dtype != self._places.dtype:
            return
        if not self._free:
            self.drop(next(iter(self._held)))
        place = self._free.pop()
        self._places[place].copy_(features)
        self._held[key] = place

    def drop(self, key: bytes) -> None:
        place = self._held.pop(key, None)
        if place is not None:
            self._free.append(place)

    def _take(self, features: Any, device: Any) -> bool:
        """Return whether there is memory for one place at least, which is taken."""
        count = self._limit // features.nbytes
        if count == 0:
            return False
        try:
            self._places = features.new_empty((count, *features.shape), device=device)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            logger.warning("the GPU has no memory for features that are kept: host memory has them")
            self._limit = 0
            return False
        self._free = [*range(count)]
        return True
