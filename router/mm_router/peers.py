"""PURE: which of several routers counts the requests of a key.

Rendezvous hashing over the names of keys: routers that know the same peers agree without a word,
and one that comes or goes moves its own keys only.
"""

from collections.abc import Mapping

from mm_api.rendezvous import order


class Peers:
    """The routers that are ready; `own` is the name of this one."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._ready: dict[str, str] = {}

    def set_ready(self, routers: Mapping[str, str]) -> None:
        """Take the routers that are ready now: their names, and where each takes claims."""
        self._ready = dict(routers)

    @property
    def count(self) -> int:
        """Return how many routers share a limit: this one is one of them, ready or not."""
        return len(self._ready.keys() | {self._own})

    def owner_of(self, key: str) -> str | None:
        """Return where the router that counts a key takes claims; None: it is this one.

        One that is not ready counts nothing: clients of a router that ends are still inside it.
        """
        if not self._ready:
            return None
        owner = order(key.encode(), self._ready)[0]
        return None if owner == self._own else self._ready[owner]
