"""What one request uses of the tokens of its key, where these are limited."""

from collections.abc import Awaitable, Callable


class KeyUse:
    """The tokens of one request.

    Args:
        reserve: takes tokens of the key's limit; None: they are not limited.

    Attributes:
        used: tokens of prompt and answer so far, as far as the router knows.
    """

    def __init__(self, reserve: Callable[[int], Awaitable[None]] | None = None) -> None:
        self._reserve = reserve
        self.used = 0

    @property
    def is_counted(self) -> bool:
        return self._reserve is not None

    async def reserve(self, tokens: int) -> None:
        """Take what the request uses at the most.

        Raises:
            KeyLimitError: the key has not so many now.
        """
        if self._reserve is not None:
            await self._reserve(tokens)
