"""Run a command in a container, with bytes as standard input and JSON as its answer."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.stream import WsApiClient
from kubernetes.aio.stream.ws_client import (
    ERROR_CHANNEL,
    STDERR_CHANNEL,
    STDIN_CHANNEL,
    STDOUT_CHANNEL,
)

from mm_operator.cluster.resources import POD
from mm_operator.errors import ClusterError

_SILENCE_SECONDS = 300.0
"""Hashing a 50 GB file that is there already takes minutes without a word."""
_HEARTBEAT_SECONDS = 20.0


async def execute(
    api: ApiClient,
    *,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    stdin: Iterable[bytes] | None = None,
) -> dict[str, str]:
    """Run a command and return the JSON object that it prints.

    Raises:
        ClusterError: the connection failed or the command did; the message holds its last words.
    """
    query = [("command", word) for word in command]
    query += [("container", container), ("stdout", "true"), ("stderr", "true")]
    query += [("stdin", "true")] if stdin is not None else []
    headers: dict[str, str] = {}
    await api.update_params_for_auth(headers, [], ["BearerToken"], "", "", None)
    url = f"{api.configuration.host}{POD.path(namespace, pod, 'exec')}?{urlencode(query)}"
    sockets = WsApiClient(api.configuration, heartbeat=_HEARTBEAT_SECONDS)  # type: ignore[no-untyped-call]  # the library's
    try:
        opening = await sockets.request("GET", url, headers=headers, _preload_content=False)  # type: ignore[no-untyped-call]  # the library's
        async with opening as socket:
            return await _converse(socket, pod, stdin)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ClusterError(0, POD.kind, pod, f"the exec stream broke off: {error}") from error
    finally:
        await sockets.close()  # type: ignore[no-untyped-call]  # the library's


async def _converse(
    socket: aiohttp.ClientWebSocketResponse, pod: str, stdin: Iterable[bytes] | None
) -> dict[str, str]:
    sending = asyncio.create_task(_send(socket, stdin or ()))
    texts: dict[int, bytes] = {STDOUT_CHANNEL: b"", STDERR_CHANNEL: b"", ERROR_CHANNEL: b""}
    try:
        while True:
            message = await socket.receive(timeout=_SILENCE_SECONDS)
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            texts[message.data[0]] = texts.get(message.data[0], b"") + message.data[1:]
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return _answer(texts, pod)


async def _send(socket: aiohttp.ClientWebSocketResponse, blocks: Iterable[bytes]) -> None:
    for block in blocks:
        await socket.send_bytes(bytes([STDIN_CHANNEL]) + block)


def _answer(texts: dict[int, bytes], pod: str) -> dict[str, str]:
    ending: dict[str, Any] = json.loads(texts[ERROR_CHANNEL] or b"{}")
    if ending.get("status") != "Success":
        words = texts[STDERR_CHANNEL].decode(errors="replace").strip().splitlines()[-3:]
        message = ending.get("message") or "the stream ended early"
        raise ClusterError(0, POD.kind, pod, " | ".join([message, *words]))
    answer: dict[str, str] = json.loads(texts[STDOUT_CHANNEL])
    return answer
