"""PURE: what bytes that no decoder here takes look like, for messages."""

import re

_BEGINNINGS = (
    (rb"II\*\0|MM\0\*|II\+\0|MM\0\+", "TIFF"),
    (rb"BM", "BMP"),
    (rb"\0\0[\1\2]\0", "ICO"),
    (rb"....ftypavi[fs]", "AVIF"),
    (rb"....ftyp(?:hei|hev|mif1|msf1)", "HEIF"),
    (rb"....ftyp", "MP4, a video or a recording"),
    (rb"\xff\x0a|\0\0\0\x0cJXL ", "JPEG XL"),
    (rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51", "JPEG 2000"),
    (rb"8BPS", "a Photoshop document"),
    (rb"v/1\x01", "OpenEXR"),
    (rb"#\?R(?:ADIANCE|GBE)", "Radiance HDR"),
    (rb"P[1-7]\s", "PNM"),
    (rb"%PDF", "PDF: send its pages as images"),
    (rb"\x1a\x45\xdf\xa3", "WebM or Matroska, a video"),
    (rb"RIFF....(?:WAVE|AVI )", "a recording or a video"),
    (rb"\x1f\x8b", "gzip"),
    (rb"PK\x03\x04", "a ZIP archive"),
    (rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml[^>]*>\s*(?:<!--.*?-->\s*)*(?:<!doctype svg[^>]*>\s*)?<)?svg",
     "SVG: draw it as PNG"),
    (rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head|body|script|!--)", "an HTML page"),
    (rb"(?:\xef\xbb\xbf)?\s*<\?xml", "XML"),
    (rb"\s*[{\[]", "JSON"),
    (rb"[\t\n\r -~]{16}", "text"),
)  # fmt: skip
"""In this order: what a file begins with, and what people call it."""

_KINDS = tuple(
    (re.compile(beginning, re.DOTALL | re.IGNORECASE), name) for beginning, name in _BEGINNINGS
)
_READ = 1024
"""Bytes that are looked at."""


def kind_of(encoded: bytes) -> str:
    start = encoded[:_READ]
    found = next((name for pattern, name in _KINDS if pattern.match(start)), None)
    return f"they look like {found}" if found else "of no format that is known here"
