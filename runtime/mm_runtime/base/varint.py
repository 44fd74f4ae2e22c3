"""PURE: numbers as protobuf writes them (https://protobuf.dev/programming-guides/encoding)."""

SEVEN_BITS, _MORE = 0x7F, 0x80
"""Of a byte: what it holds, and whether another one follows."""


def varint(number: int) -> bytes:
    """Return a number of at least 0: seven bits a byte, the lowest first."""
    written = bytearray()
    while number > SEVEN_BITS:
        written.append(number & SEVEN_BITS | _MORE)
        number >>= 7
    written.append(number)
    return bytes(written)
