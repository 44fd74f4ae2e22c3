"""Names of hosts -> addresses, in threads of its own, so many at most and each for so long.

libc's lookup cannot be cancelled. In the event loop's default executor, which has a few threads,
eight names whose server never answers stopped every fetch and everything else that takes a thread.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Callable

_MOST_LOOKUPS = 128
"""At one time: more than the requests that a gateway usually holds; a thread that waits takes some
50 KiB."""
_SECONDS = 8.0
"""For a lookup, the wait for a thread included. A resolver's answer takes milliseconds."""
_LIBC_OPTIONS = "timeout:2 attempts:2"
"""libc's own defaults hold a thread for 10 s and more after the client has disconnected."""

Entry = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]
LookUp = Callable[[str, int], list[Entry]]


class NoAddressError(Exception):
    """The name has no address, or none was found in time."""


def _look_up(host: str, port: int) -> list[Entry]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def spelt_address(host: str, port: int = 0) -> list[Entry]:
    """Return the address that a host is in any spelling, at once; nothing for a name."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


class Resolver:
    """Looks names up; belongs to the event loop that it is first used in."""

    def __init__(
        self,
        *,
        most: int = _MOST_LOOKUPS,
        seconds: float = _SECONDS,
        look_up: LookUp = _look_up,
    ) -> None:
        """Bound lookups; one whose client has disconnected counts until it ends."""
        os.environ.setdefault("RES_OPTIONS", _LIBC_OPTIONS)  # libc reads it in each new thread
        self._free = asyncio.Semaphore(most)
        self._seconds = seconds
        self._look_up = look_up

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return every address of a host, in the resolver's order.

        Raises:
            NoAddressError: there is none, or it was not found in time.
        """
        found = spelt_address(host, port) or await self._in_thread(host, port)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def _in_thread(self, host: str, port: int) -> list[Entry]:
        answer: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
                try:
                    # Daemons: the process does not wait for a name server when it ends.
                    thread = threading.Thread(
                        target=self._run, args=(host, port, answer), name="dns", daemon=True
                    )
                    thread.start()
                except RuntimeError:  # the container has no thread left
                    self._free.release()
                    raise NoAddressError from None
                return await answer
        except TimeoutError:
            raise NoAddressError from None

    def _run(self, host: str, port: int, answer: "asyncio.Future[list[Entry]]") -> None:
        found: list[Entry] | None = None
        try:
            found = self._look_up(host, port)
        except (OSError, UnicodeError):
            pass
        finally:
            try:
                answer.get_loop().call_soon_threadsafe(self._ended, answer, found)
            except RuntimeError:  # the loop has ended meanwhile
                return

    def _ended(self, answer: "asyncio.Future[list[Entry]]", found: list[Entry] | None) -> None:
        self._free.release()
        if answer.done():
            return
        if found is None:
            answer.set_exception(NoAddressError())
        else:
            answer.set_result(found)
