"""Images are what browsers show, pixel by pixel; what no browser shows is refused."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms

from mm_runtime.images.media import BadImageError, decode
from support.cases import cases
from support.image_files import (
    COLOURS,
    GREY,
    GREY_ALPHA,
    PALETTE,
    RGB,
    RGBA,
    animation,
    broken,
    clear,
    flipped,
    gamma,
    gif,
    jpeg,
    lzw,
    of_height,
    photograph,
    pixels_of,
    png,
    without_segment,
    words,
)
from support.images import encode

LIMIT = 1_000_000
WHITE = (255, 255, 255)
INK, ORANGE, GREEN, BLACK = ((10, 20, 30), (200, 100, 50), (0, 255, 0), (1, 2, 3))

PLTE = (b"PLTE", COLOURS)


def grey(*values: int) -> list[tuple[int, ...]]:
    return [(value,) * 3 for value in values]


ROW = [bytes([200, 100, 50, 10, 20, 30])]

PIXELS = {
    # Transparency, in every mode.
    "rgb-with-a-clear-colour": (png((2, 1), 8, RGB, ROW, clear(200, 100, 50)), [WHITE, INK]),
    "rgb-of-16-bits-with-one": (
        png((2, 1), 16, RGB, [words(257, 2, 3, 256, 2, 3)], clear(257, 2, 3)),
        [WHITE, (1, 0, 0)],
    ),
    "grey-of-1-bit-with-clear-black": (png((2, 1), 1, GREY, [b"\x40"], clear(0)), [WHITE, WHITE]),
    "grey-of-1-bit-with-clear-white": (
        png((2, 1), 1, GREY, [b"\x40"], clear(1)),
        [(0, 0, 0), WHITE],
    ),
    "grey-of-2-bits": (png((4, 1), 2, GREY, [b"\x1b"], clear(1)), grey(0, 255, 170, 255)),
    "grey-of-4-bits": (png((2, 1), 4, GREY, [b"\x5a"], clear(10)), grey(85, 255)),
    "grey-of-8-bits": (png((3, 1), 8, GREY, [bytes([5, 6, 7])], clear(6)), grey(5, 255, 7)),
    "grey-of-16-bits": (
        png((3, 1), 16, GREY, [words(25700, 25701, 65535)], clear(25701)),
        grey(100, 255, 255),
    ),
    "grey-of-16-bits-without": (png((2, 1), 16, GREY, [words(25700, 0)]), grey(100, 0)),
    "grey-with-alpha": (png((2, 1), 8, GREY_ALPHA, [bytes([9, 0, 100, 128])]), grey(255, 177)),
    "grey-with-alpha-of-16-bits": (
        png((2, 1), 16, GREY_ALPHA, [words(9, 0, 25700, 32896)]),
        grey(255, 177),
    ),
    "rgba": (
        png((2, 1), 8, RGBA, [bytes([9, 9, 9, 0, 200, 100, 0, 51])]),
        [WHITE, (244, 224, 204)],
    ),
    "rgba-of-16-bits": (
        png((2, 1), 16, RGBA, [words(9, 9, 9, 0, 51400, 25700, 0, 13107)]),
        [WHITE, (244, 224, 204)],
    ),
    "palette-with-one-clear-entry": (
        png((4, 1), 2, PALETTE, [b"\x1b"], PLTE, (b"tRNS", bytes([255, 0]))),
        [INK, WHITE, GREEN, BLACK],
    ),
    "palette-with-alphas": (
        png((2, 1), 8, PALETTE, [bytes([1, 2])], PLTE, (b"tRNS", bytes([0, 51]))),
        [(244, 224, 214), GREEN],
    ),
    "palette-with-more-alphas-than-colours": (
        png((1, 1), 8, PALETTE, [b"\1"], PLTE, (b"tRNS", bytes(5))),
        [ORANGE],
    ),
    "palette-behind-its-alphas": (
        png((1, 1), 8, PALETTE, [b"\1"], (b"tRNS", bytes(2)), PLTE),
        [ORANGE],
    ),
    "palette-without": (png((2, 1), 4, PALETTE, [b"\x01"], PLTE), [INK, ORANGE]),
    "gif-with-a-clear-entry": (
        gif((2, 2), (0, 0, 2, 2), [1, 1, 2, 3], transparent=1),
        [WHITE, WHITE, GREEN, BLACK],
    ),
    "gif-whose-frame-leaves-its-canvas": (
        gif((2, 2), (1, 0, 1, 1), [2], background=1),
        [WHITE, GREEN, WHITE, WHITE],
    ),
    # Colours.
    # Nothing but a profile counts.
    "png-of-another-gamma": (png((1, 1), 8, GREY, [b"\x80"], gamma(100_000)), grey(128)),
    "png-of-p3-by-its-cicp": (
        png((1, 1), 8, RGB, [bytes([200, 100, 50])], (b"cICP", bytes([12, 13, 0, 1]))),
        [ORANGE],
    ),
    "png-of-a-broken-profile": (
        png((1, 1), 8, RGB, [bytes([200, 100, 50])], (b"iCCP", b"x\0\0" + zlib.compress(b"no"))),
        [ORANGE],
    ),
    # What is damaged beside the pixels.
    "png-with-a-broken-gamma": (
        broken(png((1, 1), 8, GREY, [b"\x80"], gamma(100_000)), b"gAMA"),
        grey(128),
    ),
    "png-without-its-end": (png((1, 1), 8, GREY, [b"\x80"])[:-12], grey(128)),
    "png-and-something-else": (png((1, 1), 8, GREY, [b"\x80"]) + b"something else", grey(128)),
    "two-pngs": (png((1, 1), 8, GREY, [b"\x80"]) + png((1, 1), 8, GREY, [b"\x10"]), grey(128)),
    "png-with-more-rows-than-it-says": (png((1, 1), 8, GREY, [b"\x80"] * 9), grey(128)),
    "gif-without-its-end": (gif((1, 1), (0, 0, 1, 1), [2])[:-1], [GREEN]),
    "gif-and-something-else": (gif((1, 1), (0, 0, 1, 1), [2]) + b"something", [GREEN]),
}


@pytest.mark.parametrize("name", PIXELS)
def test_each_pixel_is_right(name: str) -> None:
    """Levels of 255; one that is rounded otherwise is right."""
    content, expected = PIXELS[name]

    found = pixels_of(decode(content, max_pixels=LIMIT))

    assert len(found) == len(expected)
    assert np.abs(np.subtract(expected, found)).max() <= 1, found


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("interlaced", [0, 1], ids=["rows", "interlaced"])
def test_black_rows_below_are_no_damage(depth: int, interlaced: int) -> None:
    """They look like rows that are missing, and the file has them."""
    passes = [(1, 1), (1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 4)] if interlaced else [(8, 8)]
    rows = [bytes(-(-columns * depth // 8)) for columns, count in passes for _ in range(count)]
    content = bytearray(png((8, 8), depth, GREY, rows))
    content[28] = interlaced
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))

    assert pixels_of(decode(bytes(content), max_pixels=LIMIT)) == grey(*[0] * 64)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_profiles_are_applied(kind: str, mode: str) -> None:
    """A profile of swapped colours shows that it was used, for grey images of colours too."""
    profile = _swapped_profile()
    image = Image.new(mode, (16, 16), (200, 100, 50) if mode == "RGB" else 128)
    content = encode(image, kind, icc_profile=profile, **_LOSSLESS[kind])

    found = decode(content, max_pixels=LIMIT).getpixel((8, 8))

    expected = (50, 100, 200) if mode == "RGB" else (128, 128, 128)
    assert np.abs(np.subtract(expected, found)).max() <= 2, found


_LOSSLESS = {"PNG": {}, "WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}}


def _swapped_profile() -> bytes:
    content = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return content.replace(b"rXYZ", b"?XYZ").replace(b"bXYZ", b"rXYZ").replace(b"?XYZ", b"bXYZ")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_profiles_of_srgb_change_nothing(kind: str) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    plain, tagged = (
        decode(encode(photograph(), kind, **extra), max_pixels=LIMIT)
        for extra in ({}, {"icc_profile": profile})
    )
    assert pixels_of(tagged) == pixels_of(plain)


@pytest.mark.parametrize("profile", [b"no profile", b"\0" * 5_000_000], ids=["broken", "huge"])
def test_profiles_that_browsers_drop_are_dropped(profile: bytes) -> None:
    tagged = decode(encode(photograph(), "JPEG", icc_profile=profile), max_pixels=LIMIT)
    assert pixels_of(tagged) == pixels_of(decode(encode(photograph(), "JPEG"), max_pixels=LIMIT))


@pytest.mark.parametrize("left_out", [b"\xff\xfe", b"\xff\xee"], ids=["of-adobe", "without-a-mark"])
def test_four_colours_are_inverted_as_browsers_have_it(left_out: bytes) -> None:
    """Every JPEG of four colours is, whether Adobe's segment is there or not."""
    image = Image.new("RGB", (16, 16), (200, 100, 50)).convert("CMYK")
    content = without_segment(encode(image, "JPEG", quality=100, comment=b"x"), left_out)

    found = decode(content, max_pixels=LIMIT).getpixel((8, 8))

    assert np.abs(np.subtract((200, 100, 50), found)).max() <= 2, found


COMPLETE = {
    "baseline": jpeg(),
    "progressive": jpeg(progressive=True),
    "with-restarts": jpeg(restart_marker_blocks=2),
    "without-its-end": jpeg()[:-2],
    "with-zeros-before-its-end": jpeg()[:-2] + bytes(40) + b"\xff\xd9",
    "with-zeros-between-segments": jpeg()[:20] + bytes(40) + jpeg()[20:],
    "with-zeros-in-two-places": jpeg()[:20] + bytes(9) + jpeg()[20:-2] + bytes(40) + b"\xff\xd9",
    "and-something-else": jpeg() + b"something else",
    "two-in-a-row": jpeg() + jpeg(progressive=True),
    "of-another-density": jpeg(dpi=(300, 72)),
}


@pytest.mark.parametrize("name", COMPLETE)
def test_complete_photographs_are_shown(name: str) -> None:
    """What is odd about the file is not about its pixels."""
    found = np.asarray(decode(COMPLETE[name], max_pixels=LIMIT)).astype(int)

    assert found.shape == (48, 64, 3)
    assert np.abs(found - np.asarray(photograph())).mean() < 8


@cases(
    "content colour",
    {
        "gif": (animation("GIF"), (255, 0, 0)),
        "webp": (animation("WEBP", lossless=True), (255, 0, 0)),
        "png": (animation("PNG"), (255, 0, 0)),
        "png-of-two-kinds": (animation("PNG", default_image=True), (0, 0, 255)),
    },
)
def test_the_first_frame_is_shown(content: bytes, colour: tuple[int, ...]) -> None:
    """The image that stands for readers without animation is no frame."""
    assert pixels_of(decode(content, max_pixels=LIMIT)) == [colour] * 16


STORED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_is_undone_in_each_format(kind: str, orientation: int) -> None:
    """Wherever the camera's upper edge is stored, the model sees it above."""
    upright = photograph()
    stored = upright if orientation == 1 else upright.transpose(STORED[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation

    found = decode(encode(stored, kind, exif=exif, **_LOSSLESS[kind]), max_pixels=LIMIT)

    assert found.size == upright.size
    assert np.abs(np.asarray(found).astype(int) - np.asarray(upright)).mean() < 4


PNG = png((4, 4), 8, RGB, [bytes(range(12))] * 4)
GIF = gif((2, 2), (0, 0, 2, 2), [1, 1, 2, 3])
STREAM = zlib.compress(b"".join(b"\0" + bytes(range(12)) for _ in range(4)))
ANIMATED = animation("PNG")
RESTARTS = jpeg(restart_marker_blocks=2)
SMOOTH = {
    "JPEG": jpeg(),
    "PNG": encode(photograph()),
    "GIF": encode(photograph(), "GIF"),
    "WEBP": encode(photograph(), "WEBP"),
}


def _riff(content: bytes, end: int) -> bytes:
    """Return the beginning of a WebP, with lengths that agree with it."""
    cut = bytearray(content[:end])
    cut[4:8] = struct.pack("<I", end - 8)
    cut[16:20] = struct.pack("<I", end - 20)
    return bytes(cut)


REFUSED = {
    # Checksums.
    "png-pixels-of-another-checksum": (broken(PNG, b"IDAT"), "'IDAT' has another checksum"),
    "png-header-of-another-checksum": (broken(PNG, b"IHDR"), "'IHDR' has another checksum"),
    "png-frame-of-another-checksum": (broken(ANIMATED, b"fdAT"), "'fdAT' has another checksum"),
    "png-stream-of-another-checksum": (
        png((4, 4), 8, RGB, [], stream=STREAM[:-1] + bytes([STREAM[-1] ^ 1])),
        "damaged",
    ),
    # Lengths that a header promises.
    "png-of-fewer-rows": (
        png((4, 400), 8, RGB, [bytes(range(12))] * 4),
        "4 x 400 pixels take 5200 bytes, it holds 52",
    ),
    "png-of-half-a-row": (png((4, 4), 8, RGB, [], stream=zlib.compress(bytes(45))), "truncated"),
    "png-of-a-cut-stream": (png((4, 4), 8, RGB, [], stream=STREAM[:-9]), "truncated"),
    "png-whose-chunk-is-cut": (PNG[:60], "'IDAT' has fewer bytes than"),
    "png-without-width": (png((0, 4), 8, RGB, [b""] * 4), "promises no rows or no columns"),
    "png-without-pixels": (PNG[:33] + PNG[-12:], "damaged"),
    "png-without-its-palette": (png((1, 1), 8, 3, [b"\0"]), "a part of it is missing"),
    "png-of-an-unknown-filter": (
        png((4, 1), 8, GREY, [], stream=zlib.compress(b"\x09abcd")),
        "damaged",
    ),
    "jpeg-of-more-rows": (of_height(jpeg(), 400), "premature end of data segment"),
    "jpeg-of-fewer-rows": (of_height(jpeg(), 16), "extraneous bytes"),
    "jpeg-without-rows": (of_height(jpeg(), 0), "promises no rows or no columns"),
    "jpeg-cut-in-half": (jpeg()[: len(jpeg()) // 2], "premature end of data segment"),
    "jpeg-cut-in-half-and-ended": (
        jpeg()[: len(jpeg()) // 2] + b"\xff\xd9",
        "premature end of data segment",
    ),
    "progressive-jpeg-without-its-end": (jpeg(progressive=True)[:-2], "Premature end"),
    "jpeg-with-a-restart-left-out": (
        RESTARTS[: RESTARTS.index(b"\xff\xd2")] + RESTARTS[RESTARTS.index(b"\xff\xd3") :],
        "instead of RST|extraneous",
    ),
    "gif-that-ends-early": (GIF.replace(lzw([1, 1, 2, 3]), lzw([1, 1])), "truncated"),
    "gif-cut-in-half": (SMOOTH["GIF"][: len(SMOOTH["GIF"]) // 2], "truncated"),
    "gif-cut-in-half-and-ended": (
        SMOOTH["GIF"][: len(SMOOTH["GIF"]) // 2] + b"\0\x3b",
        "truncated",
    ),
    "gif-without-an-image": (GIF[:25] + b"\x3b", "not an image"),
    "webp-cut-in-half": (SMOOTH["WEBP"][: len(SMOOTH["WEBP"]) // 2], "damaged|not an image"),
    "webp-cut-with-lengths-that-agree": (
        _riff(SMOOTH["WEBP"], len(SMOOTH["WEBP"]) // 2 * 2 - 200),
        "damaged|not an image",
    ),
    # Colours that eight bits do not hold.
    "png-of-hdr-pq": (
        png((1, 1), 8, RGB, [b"abc"], (b"cICP", bytes([9, 16, 0, 1]))),
        r"HDR \(PQ\).*save it as sRGB",
    ),
    "png-of-hdr-hlg": (png((1, 1), 8, RGB, [b"abc"], (b"cICP", bytes([9, 18, 0, 1]))), r"\(HLG\)"),
    # Other formats, by their name.
    "tiff": (encode(photograph(), "TIFF"), "they look like TIFF"),
    "bmp": (encode(photograph(), "BMP"), "they look like BMP"),
    "ico": (encode(photograph(), "ICO"), "they look like ICO"),
    "avif": (encode(photograph(), "AVIF"), "they look like AVIF"),
    "jpeg-2000": (encode(photograph(), "JPEG2000"), "they look like JPEG 2000"),
    "pdf": (encode(photograph(), "PDF"), "they look like PDF"),
    "heif": (b"\0\0\0\x18ftypheic" + bytes(16), "they look like HEIF"),
    "mp4": (b"\0\0\0\x18ftypisom" + bytes(16), "they look like MP4"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "they look like SVG: draw it as PNG"),
    "svg-as-xml": (b"<?xml version='1.0'?>\n<!-- x --><svg/>", "they look like SVG"),
    "html": (b"\n<!DOCTYPE html><title>Sign in</title>", "they look like an HTML page"),
    "json": (b'{"error": "not found"}', "they look like JSON"),
    "text": (b"404 page not found", "they look like text"),
    "nothing": (b"", "0 bytes"),
    "zeros": (bytes(999), "of no format that is known here"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_message_says_what_is_wrong(name: str) -> None:
    content, words = REFUSED[name]
    with pytest.raises(BadImageError, match=words):
        decode(content, max_pixels=LIMIT)


@cases("complete", {"baseline": jpeg(), "progressive": jpeg(progressive=True)})
def test_overwritten_photographs_are_refused(complete: bytes) -> None:
    """Twelve bytes of a photograph: libjpeg makes something up, and says so in a warning.

    A few bytes may still be a valid photograph of something else, which no decoder sees.
    """
    refused = 0
    for seed in range(100):
        try:
            decode(flipped(complete, 12, seed), max_pixels=LIMIT)
        except BadImageError:
            refused += 1
    assert refused >= 95


@pytest.mark.parametrize("kind", SMOOTH)
def test_a_file_that_lacks_its_end_is_refused_or_complete(kind: str) -> None:
    """Wherever it was cut: not one cut file is shown otherwise than the entire one."""
    content = SMOOTH[kind]
    complete = np.asarray(decode(content, max_pixels=LIMIT))
    other = []
    for end in range(1, len(content), max(1, len(content) // 200)):
        try:
            found = np.asarray(decode(content[:end], max_pixels=LIMIT))
        except BadImageError:
            continue
        if not np.array_equal(found, complete):
            other.append(end)
    assert other == []


def test_two_headers_that_disagree_are_refused() -> None:
    """The size that was compared with the limit is the size that is decoded."""
    content = jpeg()
    at = content.index(b"\xff\xc0")
    header = content[at : at + 19]
    larger = header[:5] + struct.pack(">HH", 60_000, 60_000) + header[9:]
    with pytest.raises(BadImageError):
        decode(content[:at] + larger + content[at:], max_pixels=LIMIT)
    with pytest.raises(BadImageError):
        decode(content[: at + 19] + larger + content[at + 19 :], max_pixels=LIMIT)


def test_plain_images_are_shown() -> None:
    for content in (PNG, GIF, ANIMATED, *SMOOTH.values()):
        assert isinstance(decode(content, max_pixels=LIMIT), Image.Image)
