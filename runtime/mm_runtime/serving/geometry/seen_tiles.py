"""PURE: which tokens of a prompt read which tiles, for language models with cross attention."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def seen_tiles(ids: Sequence[int], image_token: int, tiles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which tokens read which tiles, int64 [tokens, images, tiles].

    A token reads the image before it; images side by side are read together, until the next
    image comes or the prompt ends.

    `tiles`: [images, tiles], 1 for tiles that hold a part of the image.
    """
    places = [at for at, token in enumerate(ids) if token == image_token]
    ends = [*places[1:], len(ids)]
    following = len(ids)
    for at in reversed(range(len(places))):
        if places[at] == ends[at] - 1 and at < len(places) - 1:
            ends[at] = following
        following = ends[at]
    seen = np.zeros((len(ids), *tiles.shape), dtype=np.int64)
    for at, (start, end) in enumerate(zip(places, ends, strict=True)):
        seen[start:end, at] = tiles[at]
    return seen
