"""Every kind of file that users have becomes the RGB image they see."""

import io

import numpy as np
import pytest
from PIL import Image

from mm_runtime.images.media import BadImageError, decode
from support.images import RED, encode, plain_image

LIMIT = 1_000_000


def _mean(content: bytes) -> tuple[int, ...]:
    pixels = np.asarray(decode(content, max_pixels=LIMIT), dtype=np.float64)
    return tuple(round(value) for value in pixels.reshape(-1, 3).mean(axis=0))


def _near(expected: tuple[int, ...], actual: tuple[int, ...], tolerance: int = 4) -> bool:
    return all(abs(a - b) <= tolerance for a, b in zip(expected, actual, strict=True))


@pytest.mark.parametrize(
    ("kind", "mode", "expected"),
    [
        pytest.param("PNG", "RGB", RED, id="png"),
        pytest.param("JPEG", "RGB", RED, id="jpeg"),
        pytest.param("WEBP", "RGB", RED, id="webp"),
        pytest.param("GIF", "P", RED, id="gif-palette"),
        pytest.param("PNG", "P", RED, id="png-palette"),
        pytest.param("JPEG", "CMYK", RED, id="jpeg-cmyk"),
        pytest.param("PNG", "L", (80, 80, 80), id="png-grey"),
        pytest.param("JPEG", "L", (80, 80, 80), id="jpeg-grey"),
        pytest.param("PNG", "LA", (80, 80, 80), id="grey-with-alpha"),
        pytest.param("PNG", "1", (0, 0, 0), id="black-and-white"),
    ],
)
def test_a_red_image_stays_red(kind: str, mode: str, expected: tuple[int, ...]) -> None:
    """Whatever its file format and colour mode; without colour it is as bright as red is."""
    converted = plain_image().convert(
        mode, dither=Image.Dither.NONE, palette=Image.Palette.ADAPTIVE
    )
    assert _near(expected, _mean(encode(converted, kind)))


def test_sixteen_bit_grey_keeps_its_brightness() -> None:
    """Half of 65,535 is half of 255, not white."""
    deep = Image.fromarray(np.full((8, 8), 32_768, dtype=np.uint16))
    assert _near((128, 128, 128), _mean(encode(deep)), 1)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_transparency_is_laid_on_white(kind: str) -> None:
    """A transparent image looks as it does on a page, not black."""
    clear = Image.new("RGBA", (8, 8), (220, 20, 20, 0))
    assert _mean(encode(clear, kind, lossless=True)) == (255, 255, 255)


def test_a_transparent_palette_colour_is_laid_on_white() -> None:
    """GIFs mark one colour as transparent."""
    image = Image.new("P", (8, 8), 0)
    image.putpalette([10, 20, 30] + [0] * 765)
    assert _mean(encode(image, "GIF", transparency=0)) == (255, 255, 255)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_camera_orientation_is_undone(orientation: int) -> None:
    """All eight orientations show the same upright image: red above, blue below."""
    upright = Image.new("RGB", (32, 64), RED)
    upright.paste((0, 0, 255), (0, 32, 32, 64))
    undo = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    stored = upright if undo is None else upright.transpose(undo)
    exif = Image.Exif()
    exif[0x0112] = orientation
    decoded = decode(encode(stored, "JPEG", exif=exif, quality=95), max_pixels=LIMIT)
    assert decoded.size == (32, 64)
    assert decoded.getpixel((16, 8))[0] > 200
    assert decoded.getpixel((16, 56))[2] > 200


def test_the_first_frame_of_an_animation_counts() -> None:
    """An animated GIF is its first frame."""
    frames = [plain_image(), plain_image(colour=(0, 0, 255))]
    content = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert _near(RED, _mean(content))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "0 bytes", id="empty"),
        pytest.param(b"GIF89a", "damaged|not an image", id="magic-number-only"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image", id="svg"),
        pytest.param(encode(plain_image(), "BMP"), "not an image", id="bmp"),
        pytest.param(encode(plain_image(), "TIFF"), "not an image", id="tiff"),
        pytest.param(
            encode(plain_image((2000, 501))), "2000 x 501 = 1002000", id="too-many-pixels"
        ),
    ],
)
def test_what_is_no_image_is_refused(content: bytes, reason: str) -> None:
    """The message says what is wrong with it."""
    with pytest.raises(BadImageError, match=reason):
        decode(content, max_pixels=LIMIT)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_file_cut_anywhere_is_refused_or_complete(kind: str) -> None:
    """No cut crashes the decoder with anything but a refusal."""
    noise = np.random.default_rng(1).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    content = encode(Image.fromarray(noise), kind)
    refused = 0
    for end in range(1, len(content), max(1, len(content) // 60)):
        try:
            decode(content[:end], max_pixels=LIMIT)
        except BadImageError:
            refused += 1
    assert refused > 40


def test_bytes_flipped_at_random_never_escape_as_another_error() -> None:
    """A thousand damaged files: each is decoded or refused."""
    random = np.random.default_rng(7)
    for kind in ("PNG", "JPEG", "GIF", "WEBP"):
        content = bytearray(encode(plain_image((24, 24)), kind))
        for _ in range(250):
            damaged = bytearray(content)
            for place in random.integers(0, len(content), 4):
                damaged[place] = random.integers(0, 256)
            try:
                decode(bytes(damaged), max_pixels=LIMIT)
            except BadImageError:
                continue


def test_a_bomb_is_refused_by_its_header() -> None:
    """20,000 x 20,000 pixels in a few hundred bytes are never decoded."""
    bomb = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(bomb, "PNG")
    with pytest.raises(BadImageError, match="20000 x 20000"):
        decode(bomb.getvalue(), max_pixels=50_000_000)
