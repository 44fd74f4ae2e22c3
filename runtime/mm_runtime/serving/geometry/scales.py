"""PURE: an image seen at several scales: squares of tiles, and the grid of the nearest shape.

The steps are those of `merge_features_for_dynamic_s2` and `encode_images` of NVlabs/VILA
(llava_arch.py at 33b4f1a5); tests have a port of them. Grids are (rows, columns).
"""

from collections.abc import Sequence
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.geometry.anyres import Size

Values = NDArray[np.float32]


def joined(states: Values, grid: Size, squares: Sequence[int]) -> Values:
    """Return what each tile of the grid has at every scale, [tiles, patches, scales x width].

    `states`: of all tiles, [tiles, patches, width]: those of each square, then the grid's.
    `squares`: tiles along a side of each scale before it.
    """
    (rows, columns), (_, patches, width) = grid, states.shape
    side = isqrt(patches)
    found = np.empty((rows * columns, patches, len(squares) + 1, width), np.float32)
    # By lines of tiles: what a scale is, stretched to the grid, never exists twice.
    lines = found.reshape(rows, columns, side, side, len(squares) + 1, width)
    at = 0
    for place, split in enumerate(squares):
        canvas = _canvas(states[at : at + split**2], (split, split))
        at += split**2
        high = area_weights(split * side, rows * side)
        wide = area_weights(split * side, columns * side)
        for row in range(rows):
            part = high[row * side : (row + 1) * side] @ canvas.reshape(len(canvas), -1)
            stretched = np.matmul(wide, part.reshape(side, *canvas.shape[1:]))
            tiles = stretched.reshape(side, columns, side, width).swapaxes(0, 1)
            lines[row, :, :, :, place] = tiles
    found[:, :, -1] = states[at:]
    return found.reshape(rows * columns, patches, -1)


def repeated(states: Values, scales: int) -> Values:
    """Return tiles that are images by themselves as if each had been seen so at every scale."""
    return np.tile(states, (1, 1, scales))


def in_lines(features: Values, grid: Size) -> Values:
    """Return the features of a grid's tiles line by line of the image, [features, hidden].

    `features`: [tiles, features of a tile, hidden].
    """
    canvas = _canvas(features, grid)
    return canvas.reshape(-1, canvas.shape[-1])


def area_weights(given: int, wanted: int) -> Values:
    """Return the matrix [wanted, given] by which torch interpolates along an axis in mode `area`.

    Each place is the mean of those that it covers in part or entirely.
    """
    places = np.arange(wanted)
    starts = places * given // wanted
    ends = -(-(places + 1) * given // wanted)
    at = np.arange(given)
    covered = (at >= starts[:, None]) & (at < ends[:, None])
    weights: Values = (covered / covered.sum(axis=1, keepdims=True)).astype(np.float32)
    return weights


def _canvas(tiles: Values, grid: Size) -> Values:
    """Return tiles [tiles, places, width] as one square or rectangle [high, wide, width]."""
    rows, columns = grid
    side = isqrt(tiles.shape[1])
    placed = tiles.reshape(rows, columns, side, side, -1).transpose(0, 2, 1, 3, 4)
    return placed.reshape(rows * side, columns * side, -1)
