"""What other threads want done between two passes, by the thread that owns the model."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

Work = Callable[[], None]


class BetweenPasses:
    """Work in the order in which it came; callers of `put` hold the engine's lock."""

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self._waiting: deque[tuple[Work, Future[None]]] = deque()

    def __bool__(self) -> bool:
        """Return whether something waits."""
        return bool(self._waiting)

    def put(self, work: Work) -> Future[None]:
        """Return what ends with the work, or with its error."""
        future: Future[None] = Future()
        self._waiting.append((work, future))
        return future

    def do(self) -> None:
        """Do what waits; the caller gets its error, and passes continue."""
        while self._waiting:
            work, future = self._waiting.popleft()
            try:
                work()
            except Exception as error:  # noqa: BLE001 (the caller gets it)
                future.set_exception(error)
            else:
                future.set_result(None)

    def cancel(self) -> None:
        """End what waits, undone."""
        while self._waiting:
            self._waiting.popleft()[1].set_exception(CancelledError("the engine has stopped"))
