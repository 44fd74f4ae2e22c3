"""PURE: images as tiles of the grid whose shape is nearest, as InternVL's processor chooses it.

The rules are those of transformers' GotOcr2ImageProcessor; tests compare both. Sizes are (height,
width), grids (rows, columns).
"""

from functools import lru_cache

from mm_runtime.serving.geometry.anyres import Size

ROOM = 0.5
"""Among two grids of one shape the larger one is taken for images of more than this part of it."""


@lru_cache(maxsize=8)
def grids_of(least: int, most: int) -> tuple[Size, ...]:
    """Return all grids of so many tiles, small ones first, and of those narrow ones first."""
    grids = [
        (rows, columns)
        for columns in range(1, most + 1)
        for rows in range(1, most + 1)
        if least <= rows * columns <= most
    ]
    return tuple(sorted(grids, key=lambda grid: grid[0] * grid[1]))


def nearest_grid(size: Size, tile: int, *, least: int, most: int) -> Size:
    """Return the grid of the nearest shape: `least` to `most` tiles of `tile` x `tile` pixels."""
    height, width = size
    best, distance = (1, 1), float("inf")
    for rows, columns in grids_of(least, most):
        found = abs(width / height - columns / rows)
        fills = height * width > ROOM * tile * tile * columns * rows
        if found < distance or (found == distance and fills):
            best, distance = (rows, columns), found
    return best


def tiles_of(grid: Size) -> int:
    """Return the tiles of a grid, and the view of all of it where there is more than one."""
    count = grid[0] * grid[1]
    return count + (count > 1)
