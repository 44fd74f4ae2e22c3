"""Encoded images for tests."""

import base64
import io

from PIL import Image

RED = (220, 20, 20)


def plain_image(
    size: tuple[int, int] = (64, 64), colour: object = RED, mode: str = "RGB"
) -> Image.Image:
    return Image.new(mode, size, colour)  # type: ignore[arg-type]


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def data_url(content: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
