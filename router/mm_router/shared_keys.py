"""The parts by which routers share the limits of keys, put together."""

from collections.abc import Callable, Mapping
from pathlib import Path

from mm_router.key_admission import KeyAdmission
from mm_router.metrics import RouterMetrics
from mm_router.peers import Peers
from mm_router.remote_claims import RemoteClaims


class SharedKeys:
    """Who is let in, and which routers count.

    Args:
        tokens: file with the tokens of clients and their names.
        own: name of this router.
        clock: seconds that only go forward.

    Attributes:
        admission: lets requests in.
    """

    def __init__(
        self, tokens: Path, own: str, metrics: RouterMetrics, clock: Callable[[], float]
    ) -> None:
        self._peers = Peers(own)
        self._remote = RemoteClaims(clock)
        self.admission = KeyAdmission(tokens, self._peers, self._remote, metrics, clock)

    def set_ready(self, routers: Mapping[str, str]) -> None:
        """Take the routers that are ready now: their names, and where each takes claims."""
        self._peers.set_ready(routers)
        self._remote.keep(routers.values())

    async def close(self) -> None:
        """Give every place at other routers back."""
        await self._remote.close()
