"""The letters that stand for bytes inside of byte-level tokenizers."""


def byte_letters() -> dict[int, str]:
    """Return byte -> the letter that stands for it.

    Printable bytes of Latin-1 are their own; the others follow in their order from U+0100 on
    (bytes_to_unicode of GPT-2's encoder.py, which all of them keep to).
    """
    own = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(0x100) if byte not in own)
    return {byte: chr(byte) for byte in own} | {
        byte: chr(0x100 + at) for at, byte in enumerate(others)
    }
