"""Features of images seen before, bounded by bytes; the least recently used go first.

A key is the digest of everything the encoder would read for one entry of its batch, so an image is
found again whatever request it comes with, and equal images of one batch are encoded once. One
process encodes for the entire pod, one batch after the other: requests with one image that arrive
together cost one encoding (single flight) without a lock.

What is kept lies in host memory. Features that came as tensors of a GPU leave as such: those just
encoded as they are, known ones after a copy. Features are copied to be kept once their request has
them: the copy of an image's features from a GPU took 4 to 6 ms of the time to its first token
(H100, 576 rows of 2,048 values in 16 bits).
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Inputs = Mapping[str, NDArray[Any]]
Features = Any
"""Features of one image or a batch: an array, or a torch tensor of any dtype."""

ENTRY_BYTES = 512
"""Counted for each entry beside its features: key, array object, place in the order."""


def digest(entry: Inputs) -> bytes:
    """Return 32 bytes that name the inputs of one entry: names, types, shapes and values.

    SHA-256, for which processors have instructions: half of BLAKE2b's time.
    """
    found = hashlib.sha256()
    for name in sorted(entry):
        array = entry[name]
        found.update(f"{name} {array.dtype.str} {array.shape};".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.digest()


def _salted(key: bytes, salt: bytes) -> bytes:
    if not salt:
        return key
    return hashlib.blake2b(key, key=hashlib.sha256(salt).digest(), digest_size=32).digest()


def _copied(features: Features) -> Features:
    if isinstance(features, np.ndarray):
        return np.array(features)
    return features.to("cpu", copy=True)


@dataclass(slots=True)
class Counts:
    """What happened since the start."""

    hits: int = 0
    misses: int = 0
    shared: int = 0
    """Entries that another one of the same batch was encoded for."""

    evictions: int = 0


@dataclass
class FeatureCache:
    """An LRU of features in host memory.

    `limit_bytes`: features kept at most, with `ENTRY_BYTES` for each.
    """

    limit_bytes: int
    counts: Counts = field(default_factory=Counts)
    used_bytes: int = 0
    _entries: OrderedDict[bytes, Features] = field(default_factory=OrderedDict)
    _device: Any = None
    """Device of torch: where the encoder's tensors lie."""

    _encoded: list[tuple[bytes, Features]] = field(default_factory=list)

    def through(
        self, inputs: Inputs, encode: Callable[[Inputs], Features], salt: bytes = b""
    ) -> Features:
        """Return features [batch, ...] of inputs [batch, ...]; encode those not known once.

        `salt`: an entry is found again under the same one only, so that no client can learn from an
        answer's delay which images others have sent.
        """
        length = len(next(iter(inputs.values())))
        rows = [{name: array[at] for name, array in inputs.items()} for at in range(length)]
        keys = [_salted(digest(row), salt) for row in rows]
        found: dict[bytes, Features] = {}
        unknown: dict[bytes, int] = {}
        for at, key in enumerate(keys):
            if key in found or key in unknown:
                self.counts.shared += 1
                continue
            known = self._known(key)
            if known is None:
                unknown[key] = at
            else:
                found[key] = known
        if unknown:
            places = list(unknown.values())
            # All of a batch are unknown most of the time; indexing would copy its pixels.
            all_new = len(places) == length
            chosen = inputs if all_new else {name: one[places] for name, one in inputs.items()}
            encoded = encode(chosen)
            for key, features in zip(unknown, encoded, strict=True):
                found[key] = features
                self._encoded.append((key, features))
        return self._stacked([found[key] for key in keys])

    def settle(self) -> None:
        """Keep what was encoded since the last call, before anything else is looked up."""
        encoded, self._encoded = self._encoded, []
        for key, features in encoded:
            self._keep(key, features)

    def _stacked(self, rows: Sequence[Features]) -> Features:
        if isinstance(rows[0], np.ndarray):
            return np.stack(rows)
        stacked = rows[0].new_empty((len(rows), *rows[0].shape), device=self._device)
        for place, row in zip(stacked, rows, strict=True):
            place.copy_(row)
        return stacked

    def _known(self, key: bytes) -> Features | None:
        entry = self._entries.get(key)
        if entry is None:
            self.counts.misses += 1
            return None
        self._entries.move_to_end(key)
        self.counts.hits += 1
        return entry

    def _keep(self, key: bytes, features: Features) -> None:
        self._drop(key)
        if not isinstance(features, np.ndarray):
            self._device = features.device
        # A view of the batch would keep all of the batch alive; a copy is what the bytes count.
        kept = _copied(features)
        size = kept.nbytes + ENTRY_BYTES
        if size > self.limit_bytes:
            return
        while self.used_bytes + size > self.limit_bytes:
            self._drop(next(iter(self._entries)))
            self.counts.evictions += 1
        self._entries[key] = kept
        self.used_bytes += size

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.used_bytes -= entry.nbytes + ENTRY_BYTES
