"""Ids of images, from their content: what lets the engine reuse KV blocks of an image.

TensorRT-LLM finds reusable blocks by token ids. Ids of image features are the same for every
image, so each token carries an extra id (`prompt_table_extra_ids`); a client that knows nothing
of this gets one from the image's content, the same in every turn of a chat.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels: TypeAlias = NDArray[Any]

TEXT = 0
"""Extra id of a token that is no image feature: upstream's convention."""


def image_id(image: Image.Image | NDArray[Any]) -> int:
    """Return a 64-bit id of decoded or preprocessed pixels; never that of text.

    The first bits of SHA-256, for which processors have instructions: half of BLAKE2b's time.
    """
    pixels = np.asarray(image)
    found = hashlib.sha256(f"{pixels.dtype.str} {pixels.shape};".encode())
    found.update(np.ascontiguousarray(pixels).data)
    return int.from_bytes(found.digest()[:8]) or 1


def video_id(frames: Iterable[Image.Image | Pixels]) -> int:
    """Return the id of a video: of its frames in their order."""
    return image_id(np.array([image_id(frame) for frame in frames], np.uint64))


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

    `ids`: from the vocabulary's size on they are image features, in their order. `images`: id and
    rows of each. `text`: id of the tokens between them.

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
