"""Names of tenants' servers to addresses that may be queried, in threads of their own.

The connection goes to the address that was judged: a name that answers otherwise the next time
leads nowhere else.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult

from mm_operator.scaling.peers import why_not_reached

_THREADS = ThreadPoolExecutor(max_workers=4, thread_name_prefix="resolve")
"""A name server that never answers holds these, not the threads that everything else uses."""


class JudgingResolver(AbstractResolver):
    """Resolves a name, and refuses it as soon as one of its addresses is refused."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a name.

        Raises:
            OSError: it has none, or one that is refused.
        """
        found = await asyncio.get_running_loop().run_in_executor(
            _THREADS, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        )
        results = []
        for place, _, protocol, _, address in found:
            if why := why_not_reached(str(address[0])):
                raise OSError(f"{host} is refused: {why}")
            results.append(
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=port,
                    family=place,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        return results

    async def close(self) -> None:
        """Leave the threads to other resolvers."""
