"""Small files that cost a decoder gigabytes or hours, each generated where it is used."""

import io
import struct
import zlib

import av

from support.images import encode, plain_image
from support.videos import video


def exif_of(entries: int, region: int) -> bytes:
    data_at = 8 + 2 + 12 * entries + 4
    # Distinct tags, else a reader holds one of them; type 7 is bytes.
    rows = b"".join(struct.pack("<HHII", 0x9000 + at, 7, region, data_at) for at in range(entries))
    return (
        b"Exif\0\0II*\0"
        + struct.pack("<I", 8)
        + struct.pack("<H", entries)
        + rows
        + bytes(4)
        + bytes(region)
    )


def with_exif(kind: str, exif: bytes) -> bytes:
    """Return an image of 8 x 8 pixels with Exif, in as many segments as it takes."""
    if kind != "JPEG":
        return encode(plain_image((8, 8)), kind, exif=exif)
    content = encode(plain_image((8, 8)), kind)
    body = exif.removeprefix(b"Exif\0\0")
    parts = [b"Exif\0\0" + body[at : at + 65_000] for at in range(0, len(body), 65_000)]
    segments = b"".join(b"\xff\xe1" + struct.pack(">H", len(part) + 2) + part for part in parts)
    return content[:2] + segments + content[2:]


def with_previews(entries: int) -> bytes:
    """Return a JPEG whose directory of further images points at one region again and again."""
    content = encode(plain_image((8, 8)), "JPEG")
    part = b"MPF\0" + exif_of(entries, 60_000 - 12 * entries).removeprefix(b"Exif\0\0")
    return content[:2] + b"\xff\xe2" + struct.pack(">H", len(part) + 2) + part + content[2:]


def scans(count: int, side: int = 64) -> bytes:
    content = encode(plain_image((side, side)), "JPEG", progressive=True)
    last = content.rindex(b"\xff\xda")
    return content[:last] + content[last:-2] * count + content[-2:]


def commented_gif(blocks: int) -> bytes:
    content = encode(plain_image((8, 8)), "GIF")
    at = content.index(b"\x2c", 13 + 3 * 2 ** (1 + content[10] % 8))
    comment = b"\x21\xfe" + (b"\xff" + b"x" * 255) * blocks + b"\0"
    return content[:at] + comment + content[at:]


def chunked_png(chunks: int) -> bytes:
    content = encode(plain_image((8, 8)))
    return content[:33] + _chunk(b"IDAT", b"") * chunks + content[33:]


def texts_png(texts: int) -> bytes:
    content = encode(plain_image((8, 8)))
    text = _chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"x" * 1_000_000, 9))
    return content[:33] + text * texts + content[33:]


def animated_webp(frames: int, side: int) -> bytes:
    still = encode(plain_image((side, side)), "WEBP", lossless=True, method=0)
    image = still[12:]
    frame = _u24(0) * 2 + _u24(side - 1) * 2 + _u24(40) + b"\0" + image
    body = (
        b"WEBP"
        + _riff(b"VP8X", b"\x02\0\0\0" + _u24(side - 1) * 2)
        + _riff(b"ANIM", bytes(6))
        + _riff(b"ANMF", frame) * frames
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def grown_video(width: int, height: int, frames: int = 3) -> bytes:
    """Return a WebM of 64 x 64 pixels, all of whose frames but the first and last are larger."""
    small, large = (
        video(1, "webm", "libvpx-vp9", width=wide, height=high)
        for wide, high in ((64, 64), (width, height))
    )
    file = io.BytesIO()
    with av.open(io.BytesIO(small)) as announced, av.open(file, "w", format="webm") as output:
        stream = output.add_stream_from_template(announced.streams.video[0])
        for number, content in enumerate((small, *[large] * (frames - 2), small)):
            with av.open(io.BytesIO(content)) as container:
                packet = next(iter(container.demux(video=0)))
                packet.stream = stream
                packet.pts = packet.dts = number * 40
                output.mux(packet)
    return file.getvalue()


def slow_flac(rate: int = 1) -> bytes:
    """Return a FLAC of constant blocks of 65,535 samples, at a few samples a second."""
    blocks = 3
    info = struct.pack(">HH", 65_535, 65_535) + bytes(6)
    info += (rate << 44 | 15 << 36 | blocks * 65_535).to_bytes(8, "big") + bytes(16)
    head = b"fLaC" + b"\x80" + len(info).to_bytes(3, "big") + info
    return head + b"".join(_flac_frame(at, rate) for at in range(blocks))


def slow_wav(samples: int, rate: int) -> bytes:
    body = bytes(2 * samples)
    form = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    chunks = b"WAVE" + _riff(b"fmt ", form) + _riff(b"data", body)
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def _flac_frame(number: int, rate: int) -> bytes:
    # Block size and rate follow the number, sixteen bits each; one channel of sixteen bits.
    head = b"\xff\xf8" + bytes([0x7D, 0x08]) + bytes([number])
    head += struct.pack(">HH", 65_534, rate)
    head += bytes([_crc(head, 8, 0x07)])
    frame = head + b"\0" + struct.pack(">h", 100)  # one constant
    return frame + _crc(frame, 16, 0x8005).to_bytes(2, "big")


def _crc(content: bytes, bits: int, polynomial: int) -> int:
    crc = 0
    for byte in content:
        crc ^= byte << (bits - 8)
        for _ in range(8):
            crc = (crc << 1) ^ (polynomial if crc >> (bits - 1) & 1 else 0)
            crc &= (1 << bits) - 1
    return crc


def _chunk(kind: bytes, body: bytes) -> bytes:
    check = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)


def _riff(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def _u24(number: int) -> bytes:
    return number.to_bytes(3, "little")
