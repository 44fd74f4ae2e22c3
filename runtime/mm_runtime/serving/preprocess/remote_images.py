"""Images behind http(s) URLs of Triton requests, under the rules of the gateway's own fetches.

A host that hangs must not hold up the requests behind it: fetches run on one event loop in a thread
of their own, and a request that waits for one is finished there.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from mm_runtime.images.fetch import FetchPolicy, FetchRefusedError, ImageFetcher
from mm_runtime.serving.errors import QueueFullError, RequestError

SCHEMES = ("http://", "https://")
MAX_REQUESTS = 32
"""Requests that wait for images at one time; each may hold the largest allowed images."""

END_SECONDS = 5.0
"""For the end of fetches whose requests have ended."""

Fetched = Mapping[str, bytes]


def is_remote(url: str) -> bool:
    return url.lower().startswith(SCHEMES)


class RemoteImages:
    """Fetches the images of requests, many requests at a time."""

    def __init__(self, policy: FetchPolicy) -> None:
        self._fetcher = ImageFetcher(policy)
        self._places = threading.Semaphore(MAX_REQUESTS)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fetch", daemon=True)
        self._thread.start()

    def fetch(self, urls: Sequence[str], then: Callable[[Fetched | Exception], None]) -> None:
        """Fetch all URLs of one request and hand over their bodies by URL, or what went wrong.

        `then`: called once, from another thread.

        Raises:
            QueueFullError: too many requests wait for images already.
        """
        if not self._places.acquire(blocking=False):
            raise QueueFullError(
                f"{MAX_REQUESTS} requests wait for images from other hosts already; try again "
                "later, or send the images themselves"
            )
        work: Coroutine[Any, Any, None] = self._finish(list(dict.fromkeys(urls)), then)
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def end(self) -> None:
        """End the thread; the server has let running requests finish before."""
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(
        self, urls: Sequence[str], then: Callable[[Fetched | Exception], None]
    ) -> None:
        try:
            # One after the other: the time limit is each image's, the memory all requests'.
            found: Fetched | Exception = {url: await self._fetcher.fetch(url) for url in urls}
        except FetchRefusedError as error:
            found = RequestError(f"image_url_input: {error}")
        except Exception as error:  # noqa: BLE001 (the request gets it, and the thread lives on)
            found = error
        try:
            # Decoding takes up to a second; other requests' images arrive meanwhile.
            await asyncio.to_thread(then, found)
        finally:
            self._places.release()


async def _cancel_others() -> None:
    """End all tasks of this loop but this one."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
