"""Images go to the encoders first; what they do not answer this server encodes itself.

Each request is answered by itself: one whose encoder is slow delays no request that came with it or
after it. Those that are left for this server's own encoder share its runs.
"""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from mm_runtime.serving.encode.disaggregated.client import EncoderError, FallbackReason
from mm_runtime.serving.encode.encoding import Outputs
from mm_runtime.serving.encode.queue import Done, EncodeQueue, deliver
from mm_runtime.serving.tensors import Tensors

logger = logging.getLogger(__name__)


class EncodingClient(Protocol):
    """Gets the features of one request from somewhere else."""

    def encode(self, inputs: Tensors, trace: tuple[tuple[str, str], ...] = ()) -> Outputs:
        """Return the features of one request; raises EncoderError where no encoder answered."""


class EncodeObserver(Protocol):
    """Counts; called from any thread."""

    def encoded(self, by: str, requests: int, seconds: float) -> None:
        """Count requests that were encoded together, by `encoders`."""

    def fell_back(self, why: FallbackReason) -> None:
        """Count a request that no encoder answered."""


class EncoderDispatcher:
    """Encodes requests as they come.

    `own`: this server's encoder; ends with this. `parallel`: requests that are with encoders at one
    time; the caller of one more waits.
    """

    def __init__(
        self, own: EncodeQueue, *, client: EncodingClient, parallel: int, observer: EncodeObserver
    ) -> None:
        self._own, self._client, self._observer = own, client, observer
        self._slots = threading.BoundedSemaphore(parallel)
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="encoders")

    def submit(self, inputs: Tensors, done: Done) -> None:
        if self._own.answered(inputs, done):
            return
        # Each request here holds its pixels: without a bound they would grow with the clients.
        self._slots.acquire()
        self._threads.submit(self._encode, inputs, partial(self._finish, done))

    def close(self) -> None:
        self._threads.shutdown()
        self._own.close()

    def _finish(self, done: Done, outcome: Outputs | Exception) -> None:
        self._slots.release()
        deliver(done, outcome)

    def _encode(self, inputs: Tensors, done: Done) -> None:
        began = time.monotonic()
        try:
            features = self._client.encode(inputs)
        except EncoderError as error:
            logger.warning("this server encodes a request's images: %s: %s", error.why, error)
            self._observer.fell_back(error.why)
            self._own.put(inputs, done)
        except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
            done(error)
        else:
            self._observer.encoded("encoders", 1, time.monotonic() - began)
            done(features)
