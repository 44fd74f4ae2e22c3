"""PURE: images as the widest grid of tiles, and its features in lines: the HD transform.

The rules and their rounding are those of processing_phi3_v.py and image_embedding_phi3_v.py of
microsoft/Phi-3-vision-128k-instruct; tests compare both. Sizes are (height, width), grids (rows,
columns).
"""

from math import ceil, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.geometry.anyres import Features, Size

CUBIC = np.array([-0.09375, 0.59375, 0.59375, -0.09375], np.float32)
"""Weights half-way between two pixels of a cubic convolution with a = -0.75, which is torch's."""


def scaled_size(size: Size, tile: int, most: int) -> Size | None:
    """Return the pixels that an image is scaled to; None: so thin that a side would be nothing.

    The longer side fills as many tiles as leave room for the shorter one.
    """
    height, width = size
    short, long = sorted(size)
    ratio = long / short
    across = 1
    while across * ceil(across / ratio) <= most:
        across += 1
    filled = (across - 1) * tile
    rest = int(filled / ratio)
    if rest == 0:
        return None
    return (rest, filled) if width >= height else (filled, rest)


def grid_of(size: Size, tile: int, most: int) -> Size | None:
    """Return rows and columns of the tiles of an image; None: as `scaled_size`."""
    scaled = scaled_size(size, tile, most)
    return None if scaled is None else (ceil(scaled[0] / tile), ceil(scaled[1] / tile))


def rows_of_grid(grid: Size, features: int) -> int:
    """Return the rows of the prompt table of an image: tiles, view, separator, ends of lines."""
    rows, columns = grid
    return (rows * columns + 1) * features + 1 + (rows + 1) * isqrt(features)


def shrunk_to_tile(pixels: NDArray[np.float32], tile: int) -> NDArray[np.float32]:
    """Return the view of all of an image, as torch interpolates bicubically without a filter.

    `pixels`: [3, height, width], both multiples of a tile's side. `tile`: pixels of a tile's side.
    """
    for axis in (1, 2):
        pixels = _shrunk_along(pixels, axis, tile)
    return pixels


def _shrunk_along(pixels: NDArray[np.float32], axis: int, tile: int) -> NDArray[np.float32]:
    length = pixels.shape[axis]
    times = length // tile
    first = np.arange(tile) * times + (times - 1) // 2
    if times % 2:  # a pixel stands in the middle
        return pixels.take(first, axis)
    found: NDArray[np.float32] = np.zeros_like(pixels.take(first, axis))
    for offset, weight in zip(range(-1, 3), CUBIC, strict=True):
        found += weight * pixels.take(np.clip(first + offset, 0, length - 1), axis)
    return found


def tiles_of(pixels: NDArray[Any], tile: int) -> NDArray[Any]:
    """Return the tiles [rows x columns, 3, tile, tile] of an image [3, height, width]."""
    rows, columns = pixels.shape[1] // tile, pixels.shape[2] // tile
    cut = pixels.reshape(3, rows, tile, columns, tile).transpose(1, 3, 0, 2, 4)
    return cut.reshape(-1, 3, tile, tile)


def pack_image(features: Features, grid: Size, end: Features, separator: Features) -> Features:
    """Return the rows of the prompt table of one image.

    Args:
        features: float32 [1 + tiles, features of a tile, hidden]; the first is the view.
        grid: of the tiles.
        end: [hidden], of a line.
        separator: [hidden], before the view.
    """
    return np.concatenate(
        (_lines(features[1:], grid, end), separator[None], _lines(features[:1], (1, 1), end))
    )


def _lines(tiles: Features, grid: Size, end: Features) -> Features:
    (rows, columns), side, hidden = grid, isqrt(tiles.shape[1]), tiles.shape[2]
    canvas = tiles.reshape(rows, columns, side, side, hidden).transpose(0, 2, 1, 3, 4)
    canvas = canvas.reshape(rows * side, columns * side, hidden)
    ends = np.broadcast_to(end, (len(canvas), 1, hidden))
    lines: Features = np.concatenate((canvas, ends), axis=1).reshape(-1, hidden)
    return lines
