"""A gateway decodes the images of a chat once, not with every turn."""

import numpy as np
import pytest

from mm_runtime.gateway.media.image_cache import DecodedImageCache, Pixels
from mm_runtime.images.media import BadImageError

BYTES = 2 * 2 * 3


class Decoder:
    """Counts what it is requested."""

    def __init__(self) -> None:
        self.requested: list[int] = []

    def __call__(self, shade: int) -> Pixels:
        """Return four pixels of a shade."""
        self.requested.append(shade)
        return np.full((2, 2, 3), shade, np.uint8)


def shades(known: DecodedImageCache, decoder: Decoder, *wanted: int, count: int = 1) -> list[int]:
    """Request images of these shades; return those that came."""
    return [
        int(known.through(bytes([shade]), count, lambda shade=shade: decoder(shade))[0, 0, 0])
        for shade in wanted
    ]


def test_equal_bytes_are_decoded_once() -> None:
    """The second time the pixels are those of the first, and no one may change them."""
    known, decoder = DecodedImageCache(10 * BYTES), Decoder()
    assert shades(known, decoder, 1, 2, 1, 2) == [1, 2, 1, 2]
    assert decoder.requested == [1, 2]
    assert not known.through(b"\1", 1, lambda: decoder(1)).flags.writeable


def test_the_number_of_images_counts() -> None:
    """One of several images may be made smaller than the same one alone."""
    known, decoder = DecodedImageCache(10 * BYTES), Decoder()
    shades(known, decoder, 1)
    shades(known, decoder, 1, count=2)
    assert decoder.requested == [1, 1]


def test_salts_keep_tenants_apart() -> None:
    """An image is known to the tenant that sent it, and to no one else."""
    known, decoder = DecodedImageCache(10 * BYTES), Decoder()
    for salt in ("ann", "bob", "ann", ""):
        known.through(b"\1", 1, lambda: decoder(1), salt)
    assert decoder.requested == [1, 1, 1]


def test_the_longest_unused_goes_first() -> None:
    """Two have room: the third takes the place of the one that was not requested."""
    known, decoder = DecodedImageCache(2 * BYTES), Decoder()
    shades(known, decoder, 1, 2, 1, 3, 1, 2)
    assert decoder.requested == [1, 2, 3, 2]


@pytest.mark.parametrize("room", [0, BYTES - 1])
def test_without_room_all_are_decoded(room: int) -> None:
    """No memory, or less than one image: nothing is kept, every answer is right."""
    known, decoder = DecodedImageCache(room), Decoder()
    assert shades(known, decoder, 1, 1) == [1, 1]
    assert decoder.requested == [1, 1]


def test_errors_are_not_kept() -> None:
    """A damaged image is refused each time, with the same words."""
    known = DecodedImageCache(10 * BYTES)

    def refuse() -> Pixels:
        raise BadImageError("the image is damaged")

    for _ in range(2):
        with pytest.raises(BadImageError, match="damaged"):
            known.through(b"x", 1, refuse)
