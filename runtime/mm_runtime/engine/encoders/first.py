"""Pictures go to the encoders first; what they do not answer this server encodes itself.

Each request is answered by itself: one whose encoder is slow holds up nobody who came with it or
after it. Those that are left for this server's own encoder share its runs.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from mm_runtime.engine.encoders.client import EncoderError, Why
from mm_runtime.engine.encoding import Outputs
from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.tensors import Tensors

logger = logging.getLogger(__name__)

Results = Sequence[Outputs | RequestError]
Done = Callable[[Outputs | Exception], None]
"""Takes what a request gets; called once, from any thread."""


class Asks(Protocol):
    """Gets the features of one request from somewhere else."""

    def ask(self, inputs: Tensors) -> Outputs:
        """Return the features of one request.

        Raises:
            EncoderError: nobody answered.
        """


class Told(Protocol):
    """Counts; called from any thread."""

    def encoded(self, by: str, requests: int, seconds: float) -> None:
        """Count requests that were encoded together, by `encoders`."""

    def fell_back(self, why: Why) -> None:
        """Count a request that no encoder answered."""


@dataclass(frozen=True, slots=True)
class _Left:
    inputs: Tensors
    done: Done


class EncodersFirst:
    """Encodes requests as they come.

    Args:
        own: this server's encoder.
        reads: returns what a request brings to encode, None for one without pictures; raises what
            is wrong with it.
        client: asks the encoders.
        parallel: requests that are with encoders at one time; whoever brings one more waits.
        together: requests that the own encoder takes at one time.
        told: counts.
    """

    def __init__(
        self,
        own: Callable[[Sequence[Tensors]], Results],
        *,
        reads: Callable[[Tensors], object | None],
        client: Asks,
        parallel: int,
        together: int,
        told: Told,
    ) -> None:
        self._own, self._reads, self._client = own, reads, client
        self._together, self._told = together, told
        self._slots = threading.BoundedSemaphore(parallel)
        self._asking = ThreadPoolExecutor(parallel, thread_name_prefix="encoders")
        self._left: queue.SimpleQueue[_Left | None] = queue.SimpleQueue()
        self._encoding = threading.Thread(target=self._run, name="own-encoder", daemon=True)
        self._encoding.start()

    def submit(self, inputs: Tensors, done: Done) -> None:
        """Answer a request now when it is wrong or has no pictures, else later.

        Args:
            inputs: tensors that stay as they are until `done` was called.
            done: takes its outputs, or what is wrong with it.
        """
        try:
            if self._reads(inputs) is None:
                done({})
                return
        except RequestError as error:
            done(error)
            return
        # Each request here holds its pixels: without a bound they would grow with the clients.
        self._slots.acquire()
        self._asking.submit(self._ask, inputs, partial(self._finish, done))

    def close(self) -> None:
        """Wait until every request was answered, and end the threads."""
        self._asking.shutdown()
        self._left.put(None)
        self._encoding.join()

    def _finish(self, done: Done, outcome: Outputs | Exception) -> None:
        self._slots.release()
        try:
            done(outcome)
        except Exception:
            logger.exception("a request's features could not be handed over")

    def _ask(self, inputs: Tensors, done: Done) -> None:
        began = time.monotonic()
        try:
            features = self._client.ask(inputs)
        except EncoderError as error:
            logger.warning("this server encodes a request's pictures: %s: %s", error.why, error)
            self._told.fell_back(error.why)
            self._left.put(_Left(inputs, done))
        except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
            done(error)
        else:
            self._told.encoded("encoders", 1, time.monotonic() - began)
            done(features)

    def _run(self) -> None:
        """Encode what was left, as much at one time as has come by then."""
        while (first := self._left.get()) is not None:
            batch = [first]
            while len(batch) < self._together and not self._left.empty():
                following = self._left.get()
                if following is None:
                    self._left.put(None)
                    break
                batch.append(following)
            for one, outcome in zip(batch, self._encode(batch), strict=True):
                one.done(outcome)

    def _encode(self, batch: Sequence[_Left]) -> Sequence[Outputs | Exception]:
        try:
            return self._own([one.inputs for one in batch])
        except Exception as error:  # noqa: BLE001 (the clients get it, and the server lives on)
            return [error] * len(batch)
