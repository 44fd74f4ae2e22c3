"""Ids of images, from their content: what lets the engine reuse KV blocks of an image.

TensorRT-LLM finds reusable blocks by token ids. Ids of image features are the same for every
image, so each token carries an extra id (`prompt_table_extra_ids`); a client that knows nothing
of this gets one from the image's content, the same in every turn of a chat.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

logger = logging.getLogger(__name__)

Pixels: TypeAlias = NDArray[Any]

TEXT = 0
"""Extra id of a token that is no image feature: upstream's convention."""

MOST_SEEN = 65_536
"""Images whose second digest is remembered: 10 MB, and more than a KV cache holds images."""


def image_id(image: Image.Image | NDArray[Any]) -> int:
    """Return a 64-bit id of decoded or preprocessed pixels; never that of text.

    The first bits of SHA-256, for which processors have instructions: half of BLAKE2b's time.
    """
    pixels = np.asarray(image)
    found = hashlib.sha256(f"{pixels.dtype.str} {pixels.shape};".encode())
    found.update(np.ascontiguousarray(pixels).data)
    return int.from_bytes(found.digest()[:8]) or 1


class ImageIds:
    """Names images and videos by their content.

    Args:
        verify: remember a second, longer digest of each image by its id, and give an image that
            has another one's id an id of its own. For debugging: it costs about as much as the id.
        key: names an image; replaced in tests to force collisions.
    """

    def __init__(self, *, verify: bool = False, key: Callable[[Pixels], int] = image_id) -> None:
        self._verify, self._key = verify, key
        self._seen: OrderedDict[int, bytes] = OrderedDict()
        self.collisions = 0

    def of_image(self, image: Image.Image | Pixels) -> int:
        """Return the id of decoded or preprocessed pixels."""
        pixels = np.asarray(image)
        found = self._key(pixels)
        if not self._verify:
            return found
        second = _second_digest(pixels)
        seen = self._seen.setdefault(found, second)
        self._seen.move_to_end(found)
        if len(self._seen) > MOST_SEEN:
            self._seen.popitem(last=False)
        if seen == second:
            return found
        self.collisions += 1
        logger.error("two images have the id %d; one gets another", found)
        return int.from_bytes(second[:8]) or 1

    def of_video(self, frames: Iterable[Image.Image | Pixels]) -> int:
        """Return the id of a video: of its frames in their order."""
        ids = np.array([self.of_image(frame) for frame in frames], np.uint64)
        return self.of_image(ids)


def _second_digest(pixels: Pixels) -> bytes:
    shape = f"{pixels.dtype.str} {pixels.shape};".encode()
    return hashlib.blake2b(shape + np.ascontiguousarray(pixels).tobytes()).digest()


def salted_id(one: int, salt: str) -> int:
    """Return the id of an image among the requests of one salt; without one it stays."""
    if not salt:
        return one
    key = hashlib.sha256(salt.encode()).digest()
    return int.from_bytes(hashlib.blake2b(one.to_bytes(8), key=key, digest_size=8).digest()) or 1


def sized_id(one: int, rows: int) -> int:
    """Return the id of an image that became so many rows, where equal images can become others."""
    content = one.to_bytes(8) + rows.to_bytes(8)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) or 1


def salted_text(salt: str) -> int:
    """Return the extra id of the tokens of one salt; upstream's of others."""
    return salted_id(TEXT, salt)


def extra_ids(
    ids: Sequence[int],
    vocabulary_size: int,
    images: Sequence[tuple[int, int]],
    text: int = TEXT,
) -> NDArray[np.uint64]:
    """Return the extra id of each token, uint64 [1, tokens].

    Args:
        ids: the prompt; ids from the vocabulary's size on are image features, in their order.
        vocabulary_size: of the checkpoint.
        images: id and rows of each image, in the order of their features.
        text: of the tokens between them.

    Raises:
        ValueError: the prompt has another number of features than the images have rows.
    """
    marked = np.full((1, len(ids)), text, np.uint64)
    places = np.flatnonzero(np.asarray(ids) >= vocabulary_size)
    by_row = np.repeat(
        np.array([one for one, _ in images], np.uint64), [rows for _, rows in images]
    )
    if len(places) != len(by_row):
        raise ValueError(f"{len(places)} features in the prompt, {len(by_row)} rows of images")
    marked[0, places] = by_row
    return marked
