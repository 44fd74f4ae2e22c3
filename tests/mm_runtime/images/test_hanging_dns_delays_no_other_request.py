"""Names whose server never answers hold up neither other fetches nor what else takes a thread."""

import asyncio
import socket
import threading

import pytest

from mm_runtime.images.fetch import FetchPolicy, FetchRefusedError, ImageFetcher
from mm_runtime.images.resolver import Entry, NoAddressError, Resolver
from support.eventually import eventually_async
from support.http_servers import Exchange, serve_local
from support.turns import counted_turns

POLICY = FetchPolicy((), allow_private_networks=True, timeout_seconds=60, max_bytes=1000)


class Names:
    """A name server that answers for `good` alone, and for the others once it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.requested = 0

    def look_up(self, host: str, port: int) -> list[Entry]:
        self.requested += 1
        if host != "good":
            self.released.wait(60)
            raise OSError
        return socket.getaddrinfo("127.0.0.1", port, type=socket.SOCK_STREAM)


async def test_a_good_name_is_found_beside_names_that_hang() -> None:
    """Fifty of them, more than a default executor has threads; `to_thread` has a thread, too."""

    async def handler(exchange: Exchange) -> None:
        await exchange.answer(200, b"x")

    names = Names()
    fetcher = ImageFetcher(POLICY, resolver=Resolver(look_up=names.look_up))
    async with serve_local(handler) as server:
        hanging = [
            asyncio.create_task(fetcher.fetch(f"http://slow-{number}/")) for number in range(50)
        ]
        await eventually_async(lambda: names.requested == 50)
        assert await fetcher.fetch(f"http://good:{server.port}/") == b"x"
        assert await asyncio.to_thread(lambda: 7) == 7
        names.released.set()
        found = await asyncio.gather(*hanging, return_exceptions=True)
    assert {FetchRefusedError} == {type(one) for one in found}


async def test_a_lookup_has_a_deadline() -> None:
    """The request continues; the thread counts until libc has given up."""
    names = Names()
    resolver = Resolver(most=2, look_up=names.look_up)
    for _ in range(3):
        with counted_turns(), pytest.raises(NoAddressError):
            await resolver.addresses("slow", 80)
    await eventually_async(lambda: names.requested == 2)
    names.released.set()
    await eventually_async(lambda: not any(one.name == "dns" for one in threading.enumerate()))
    assert await resolver.addresses("good", 80) == ["127.0.0.1"]


async def test_addresses_need_no_thread() -> None:
    names = Names()
    resolver = Resolver(most=0, seconds=0.05, look_up=names.look_up)
    assert await resolver.addresses("0x7f.1", 80) == ["127.0.0.1"]
    assert await resolver.addresses("::1", 80) == ["::1"]
    assert names.requested == 0


async def test_the_process_does_not_wait_for_a_name_server() -> None:
    names = Names()
    resolver = Resolver(seconds=0.05, look_up=names.look_up)
    with pytest.raises(NoAddressError):
        await resolver.addresses("slow", 80)
    kinds = [one.daemon for one in threading.enumerate() if one.name == "dns"]
    names.released.set()
    assert kinds == [True]
    await eventually_async(lambda: not any(one.name == "dns" for one in threading.enumerate()))
