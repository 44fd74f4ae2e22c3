"""Finds requests whose client has gone while another model works on them."""

import logging
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 0.2
"""A slot is to be free within a second of its client's going; asking costs a message each time."""


class AbandonedRequests:
    """Watches response senders; calls back once for each request that nobody waits for."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        """Start the thread.

        Args:
            stop: ends the work on the request of this id.
        """
        self._stop = stop
        self._lock = threading.Lock()
        self._senders: dict[str, Any] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="abandoned", daemon=True)
        self._thread.start()

    def add(self, request_id: str, sender: Any) -> None:
        """Watch a request."""
        with self._lock:
            self._senders[request_id] = sender

    def remove(self, request_id: str) -> None:
        """Stop watching a request, before its stream is closed."""
        with self._lock:
            self._senders.pop(request_id, None)

    def end(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(PERIOD_SECONDS):
            with self._lock:
                gone = [one for one, sender in self._senders.items() if sender.is_cancelled()]
                for request_id in gone:
                    del self._senders[request_id]
            for request_id in gone:
                try:
                    self._stop(request_id)
                except Exception:
                    # The answer runs to its end then; the other requests are still watched.
                    logger.exception("an abandoned request could not be stopped")
