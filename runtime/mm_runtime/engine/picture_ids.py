"""Ids of pictures, from their content: what lets the engine reuse KV blocks of a picture.

TensorRT-LLM finds reusable blocks by token ids. Ids of image features are the same for every
picture, so each token carries an extra id (`prompt_table_extra_ids`); a client that knows nothing
of this gets one from the picture's content, the same in every turn of a chat.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

TEXT = 0
"""Extra id of a token that is no image feature: upstream's convention."""


def picture_id(picture: Image.Image | NDArray[Any]) -> int:
    """Return a 64-bit id of decoded or preprocessed pixels; never that of text."""
    pixels = np.asarray(picture)
    found = hashlib.blake2b(f"{pixels.dtype.str} {pixels.shape};".encode(), digest_size=8)
    found.update(np.ascontiguousarray(pixels).data)
    return int.from_bytes(found.digest()) or 1


def video_id(frames: Iterable[Image.Image]) -> int:
    """Return the id of a video: of its frames in their order."""
    ids = np.array([picture_id(frame) for frame in frames], np.uint64)
    return picture_id(ids)


def salted_id(one: int, salt: str) -> int:
    """Return the id of a picture among the requests of one salt; without one it stays."""
    if not salt:
        return one
    key = hashlib.sha256(salt.encode()).digest()
    return int.from_bytes(hashlib.blake2b(one.to_bytes(8), key=key, digest_size=8).digest()) or 1


def extra_ids(
    ids: Sequence[int], vocabulary_size: int, pictures: Sequence[tuple[int, int]]
) -> NDArray[np.uint64]:
    """Return the extra id of each token, uint64 [1, tokens].

    Args:
        ids: the prompt; ids from the vocabulary's size on are image features, in their order.
        vocabulary_size: of the checkpoint.
        pictures: id and rows of each picture, in the order of their features.

    Raises:
        ValueError: the prompt has another number of features than the pictures have rows.
    """
    marked = np.full((1, len(ids)), TEXT, np.uint64)
    places = np.flatnonzero(np.asarray(ids) >= vocabulary_size)
    by_row = np.repeat(
        np.array([one for one, _ in pictures], np.uint64), [rows for _, rows in pictures]
    )
    if len(places) != len(by_row):
        raise ValueError(f"{len(places)} features in the prompt, {len(by_row)} rows of pictures")
    marked[0, places] = by_row
    return marked
