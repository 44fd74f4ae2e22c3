"""How many requests may wait for hosts at one time: hosts are slow or never answer at will.

A request holds its place while its files are fetched, up to ten seconds, and costs its client
nothing: seventy-two addresses of a slow host, again and again, kept all other clients out.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mm_edge.errors import OverloadedError


class Fetching:
    """Places of requests whose files are fetched: half of all."""

    def __init__(self, capacity: int) -> None:
        self._left = -(-capacity // 2)

    @contextmanager
    def claim(self, *, fetches: bool) -> Iterator["FetchClaim"]:
        """Hold a place for one that fetches until its claim is released; OverloadedError: none."""
        if fetches:
            self._take()
        claim = FetchClaim(self, held=fetches)
        try:
            yield claim
        finally:
            claim.release()

    def free(self) -> None:
        self._left += 1

    def _take(self) -> None:
        if not self._left:
            raise OverloadedError(
                "Too many requests wait for files that they name by URL. Try again, or send files "
                "as data: URLs.",
                retry_after_seconds=1,
                reason="fetches",
                code="rate_limit_exceeded",
            )
        self._left -= 1


class FetchClaim:
    """What one request holds."""

    def __init__(self, fetching: Fetching, *, held: bool) -> None:
        self._fetching = fetching
        self._held = held

    def release(self) -> None:
        """Give the place back; every file is there."""
        if self._held:
            self._held = False
            self._fetching.free()
