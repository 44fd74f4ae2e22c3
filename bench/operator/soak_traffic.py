"""Requests of a soak: images that differ, streams that clients leave, bodies that are refused."""

import asyncio
import base64
import io
import random
from collections import Counter
from typing import Any

import aiohttp
from PIL import Image, ImageDraw

_KINDS = {
    "image": 30,
    "streamed image": 20,
    "text": 10,
    "stream left at once": 8,
    "stream left on its way": 12,
    "body that is no JSON": 4,
    "unknown field": 4,
    "damaged image": 4,
    "too many images": 4,
    "unknown model": 2,
    "body cut on its way": 4,
}
"""Of a hundred requests."""
_REFUSED = {"body that is no JSON", "unknown field", "damaged image", "too many images"}
_WANTED = dict.fromkeys(_REFUSED, "400") | {"unknown model": "404"}
_OF_SERVERS, _KEPT = 500, 200
"""The least status of errors of servers; characters that are kept of one."""
_LEFT = "left"
_LOST, _LOST_CODE = "lost with its gateway", '"code":"replica_lost"'
"""How a request ends that was at a gateway when it was killed: the router does not send it again,
since it may have run."""
_SECONDS = 120.0
_ENDS_SECONDS = 2.0


class Traffic:
    """Sends requests in an open loop (Poisson) and counts how each kind ended."""

    def __init__(self, url: str, model: str, rate: float, seed: int) -> None:
        self._url = f"{url}/v1/chat/completions"
        self._address = url.removeprefix("http://").split(":")
        self._model = model
        self._rate = rate
        self._random = random.Random(seed)  # noqa: S311  # reproducible
        self.ended: Counter[tuple[str, str]] = Counter()
        """(kind, HTTP status or what happened) -> requests."""
        self.kills = 0
        """How often a gateway's end began, or was over."""

    async def run(self) -> None:
        """Send until cancelled."""
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._random.expovariate(self._rate))
                (kind,) = self._random.choices(list(_KINDS), list(_KINDS.values()))
                group.create_task(self._count(session, kind))

    async def burst(self) -> None:
        """Send many images at once: each decoder process loads what it needs with its first."""
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for _ in range(4):
                await asyncio.gather(*(self._count(session, "image") for _ in range(16)))

    async def _count(self, session: aiohttp.ClientSession, kind: str) -> None:
        kills = self.kills
        try:
            result = await self._send(session, kind)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            result = type(error).__name__
        if result == "cut" or _LOST_CODE in result:
            await asyncio.sleep(_ENDS_SECONDS)  # the kernel ends connections before the process
            result = _LOST if self.kills > kills else result
        self.ended[kind, result] += 1

    async def _send(self, session: aiohttp.ClientSession, kind: str) -> str:
        if kind == "body cut on its way":
            return await self._cut()
        streamed = kind.startswith("stream")
        body = self._body(kind, streamed=streamed)
        async with session.post(self._url, **body) as answer:
            if answer.status != 200:  # noqa: PLR2004
                return _refused(answer.status, await answer.text())
            if not streamed:
                text = (await answer.json())["choices"][0]["message"]["content"]
                return "200" if text else "empty"
            if kind == "stream left at once":
                return _LEFT  # the connection closes with the block
            last = b""
            async for line in answer.content:
                if kind == "stream left on its way" and b'"content"' in line:
                    return _LEFT
                last = line.strip() or last
            return "200" if last == b"data: [DONE]" else "cut"

    def _body(self, kind: str, *, streamed: bool) -> dict[str, Any]:
        if kind == "body that is no JSON":
            content = b'{"model": "%s", "messages": [' % self._model.encode()
            return {"data": content, "headers": {"Content-Type": "application/json"}}
        images = {"text": 0, "too many images": 5}.get(kind, 1)
        parts: list[dict[str, Any]] = [{"type": "text", "text": "What is in the image?"}]
        if images == 0:
            parts[0]["text"] = f"What is in the image? {self._random.random()}"
        parts += [
            {"type": "image_url", "image_url": {"url": self._image(kind)}} for _ in range(images)
        ]
        left = kind == "stream left on its way"
        document: dict[str, Any] = {
            "model": "missing" if kind == "unknown model" else self._model,
            "messages": [{"role": "user", "content": parts}],
            "max_tokens": 32 if left else 12,
            "stream": streamed,
        }
        document |= {"ignore_eos": True} if left else {}
        document |= {"no_such_field": 1} if kind == "unknown field" else {}
        return {"json": document}

    def _image(self, kind: str) -> str:
        chosen = self._random
        size = chosen.randrange(40, 480), chosen.randrange(40, 480)
        image = Image.new("RGB", size, self._color())
        edges = sorted(chosen.randrange(size[0]) for _ in range(2))
        ImageDraw.Draw(image).rectangle((edges[0], 4, edges[1], size[1] - 4), fill=self._color())
        suffix = chosen.choice(("PNG", "JPEG", "WEBP"))
        file = io.BytesIO()
        image.save(file, suffix)
        content = file.getvalue()
        if kind == "damaged image":
            content = content[: len(content) // 2]
        return f"data:image/{suffix.lower()};base64,{base64.b64encode(content).decode()}"

    def _color(self) -> tuple[int, int, int]:
        red, green, blue = (self._random.randrange(256) for _ in range(3))
        return red, green, blue

    async def _cut(self) -> str:
        _, writer = await asyncio.open_connection(self._address[0], int(self._address[1]))
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: soak\r\nContent-Length: 90000\r\n\r\n"
        writer.write(head + b"x" * 40_000)
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.close()
        return _LEFT

    def by_kind(self) -> dict[str, int]:
        """Return how many requests of each kind have ended."""
        found: Counter[str] = Counter()
        for (kind, _), number in self.ended.items():
            found[kind] += number
        return dict(sorted(found.items()))

    def lost(self) -> int:
        """Return how many requests were lost with a gateway that was killed."""
        return sum(number for (_, result), number in self.ended.items() if result == _LOST)

    def unexpected(self) -> dict[str, int]:
        """Return the ends that no request of its kind should have, with their numbers."""
        return {
            f"{kind}: {result}": number
            for (kind, result), number in sorted(self.ended.items())
            if result not in (_LEFT, _LOST, _WANTED.get(kind, "200"))
        }


def _refused(status: int, said: str) -> str:
    return str(status) if status < _OF_SERVERS else f"{status} {said[:_KEPT]}"
