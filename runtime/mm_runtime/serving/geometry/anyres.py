"""PURE: images as views: which grid of tiles one gets, and how features become one table.

The rules and their rounding are those of transformers' classes; tests compare both.
Sizes are (height, width).
"""

from collections.abc import Sequence
from math import ceil, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Size: TypeAlias = tuple[int, int]
Features: TypeAlias = NDArray[np.float32]

SHRINK_ABOVE = 1.1
"""A grid is scaled down when its side is more than 1.1 times that of the most tiles allowed."""

VIDEO_POOL = 2


def best_grid(size: Size, grids: Sequence[Size]) -> Size:
    """Return the resolution that keeps most of the image, and of those the smallest."""
    height, width = size

    def fit(grid: Size) -> tuple[int, int]:
        scale = min(grid[1] / width, grid[0] / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, kept - grid[0] * grid[1]

    return max(grids, key=fit)


def tiles_of(grid: Size, tile: int) -> int:
    """Return the tiles of an image: those of its grid, and its base view."""
    return grid[0] // tile * (grid[1] // tile) + 1


def unpadded(size: Size, rows: int, columns: int) -> tuple[slice, slice]:
    """Return which rows and columns of a grid of patches hold image and no padding."""
    height, width = size
    if width / height > columns / rows:
        padding = (rows - int(round(height * (columns / width), 7))) // 2
        return slice(padding, rows - padding), slice(0, columns)
    padding = (columns - int(round(width * (rows / height), 7))) // 2
    return slice(0, rows), slice(padding, columns - padding)


def grid_shape(size: Size, grid: Size, *, tile: int, side: int, limit: int | None) -> Size:
    """Return rows and columns of the features of a grid, padding cut off and scaled down.

    `size`: of the image. `grid`: resolution that `best_grid` chose. `tile`: pixels of a tile's
    side. `side`: patches along it. `limit`: n of anyres_max_n; None: grids are not scaled down.
    """
    down, across = unpadded(size, grid[0] // tile * side, grid[1] // tile * side)
    rows, columns = down.stop - down.start, across.stop - across.start
    ratio = sqrt(rows * columns / (limit * side**2)) if limit else 1
    if ratio > SHRINK_ABOVE:
        return int(rows // ratio), int(columns // ratio)
    return rows, columns


def rows_of_image(
    size: Size, grids: Sequence[Size], *, tile: int, side: int, limit: int | None
) -> int:
    """Return how many rows of the prompt table an image becomes: base view, grid, newlines."""
    rows, columns = grid_shape(size, best_grid(size, grids), tile=tile, side=side, limit=limit)
    return side**2 + rows * (columns + 1)


def pack_image(
    features: Features, size: Size, grid: Size, *, tile: int, limit: int | None, newline: Features
) -> Features:
    """Return the rows of the prompt table of one image; arguments as of `grid_shape`.

    `features`: float32 [1 + tiles, side x side, hidden]; the first is the full image. `newline`:
    [hidden], the end of each row of patches.
    """
    base, tiles = features[0], features[1:]
    side = int(sqrt(len(base)))
    high, wide = grid[0] // tile, grid[1] // tile
    hidden = base.shape[-1]
    canvas = tiles.reshape(high, wide, side, side, hidden).transpose(0, 2, 1, 3, 4)
    canvas = canvas.reshape(high * side, wide * side, hidden)
    canvas = canvas[unpadded(size, *canvas.shape[:2])]
    canvas = resized(canvas, grid_shape(size, grid, tile=tile, side=side, limit=limit))
    ends = np.broadcast_to(newline, (len(canvas), 1, hidden))
    rows = np.concatenate((canvas, ends), axis=1).reshape(-1, hidden)
    return np.concatenate((base, rows))


def pack_video(features: Features, newline: Features) -> Features:
    """Return the rows of a video: frames [frames, side x side, hidden] pooled, one newline."""
    side = int(sqrt(features.shape[1]))
    pooled = (ceil(side / VIDEO_POOL),) * 2
    frames = [
        resized(frame.reshape(side, side, -1), pooled).reshape(pooled[0] ** 2, -1)
        for frame in features
    ]
    return np.concatenate((*frames, newline[None]))


def resized(grid: Features, shape: Size) -> Features:
    """Return a grid [rows, columns, hidden] in another size, bilinear as torch interpolates."""
    for axis, length in enumerate(shape):
        if grid.shape[axis] != length:
            grid = _resized_along(grid, axis, length)
    return grid


def _resized_along(grid: Features, axis: int, length: int) -> Features:
    given = grid.shape[axis]
    # Centres of pixels, not corners; left of the first centre there is nothing to mix with.
    places = np.maximum((np.arange(length) + 0.5) * (given / length) - 0.5, 0)
    low = np.minimum(places.astype(np.int64), given - 1)
    high = np.minimum(low + 1, given - 1)
    share = (places - low).astype(np.float32)
    share = share.reshape([-1 if at == axis else 1 for at in range(grid.ndim)])
    mixed: Features = grid.take(low, axis) * (1 - share) + grid.take(high, axis) * share
    return mixed
