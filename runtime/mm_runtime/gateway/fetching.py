"""How many requests may wait for hosts at one time: hosts are slow or never answer at will.

A request holds its place while its files are fetched, up to ten seconds, and costs whoever sends it
nothing: seventy-two addresses of a host that drips, again and again, kept everybody out.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mm_runtime.gateway.errors import OverloadedError


class Fetching:
    """Places of requests whose files are fetched: half of all."""

    def __init__(self, places: int) -> None:
        """Take half of the places that requests have, one at least."""
        self._left = -(-places // 2)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one while files are fetched.

        Raises:
            OverloadedError: other requests hold them all.
        """
        if not self._left:
            raise OverloadedError(
                "Too many requests wait for files that they name by URL. Try again, or send files "
                "as data: URLs.",
                retry_after_seconds=1,
                reason="fetches",
                code="rate_limit_exceeded",
            )
        self._left -= 1
        try:
            yield
        finally:
            self._left += 1
