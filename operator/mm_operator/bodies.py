"""Bodies of answers from servers that tenants run: never read beyond a bound."""

import aiohttp


async def read_bounded(content: aiohttp.StreamReader, most_bytes: int) -> bytes | None:
    """Return a body, or None as soon as it has more than `most_bytes`.

    The bound holds for memory only in a session that does not decompress (`auto_decompress=False`).
    """
    body = bytearray()
    # Not above the bound, or one piece alone could be all that the stream has buffered.
    async for piece in content.iter_chunked(min(most_bytes, 1 << 16)):
        body += piece
        if len(body) > most_bytes:
            return None
    return bytes(body)
