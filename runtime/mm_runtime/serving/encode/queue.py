"""The encoder's own batch queue: one thread encodes what has come by then, as much as fits.

Not done in the model's `execute`. Triton hands a model nothing while that runs, and every request
goes through the encoder's model: a question without an image waited for all images before it
(ten seconds behind three of them). And Triton's batcher spins while requests of different shapes
wait together: nine tenths of the encoder's core (Triton 2.51).
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from mm_runtime.serving.encode.encoding import Outputs
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.tensors import Tensors

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 2.0
"""Triton gives all its models five seconds to end (`--exit-timeout-secs`), looks once a second, and
exits as if it had failed when one is left. The encoder's turn came after the first of them, and its
process was gone half a second after its turn (2.51, two cores)."""

Results = Sequence[Outputs | Exception]
Reads = Callable[[Tensors], object | None]
"""Returns what a request brings to encode, None without images; raises what is wrong with it."""

Done = Callable[[Outputs | Exception], None]
"""Takes what a request gets; called once, from any thread."""


def _no_outputs(inputs: Tensors) -> Outputs:
    del inputs
    return {}


def nothing() -> None:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    inputs: Tensors
    done: Done
    since: float
    """Time of the monotonic clock."""


class EncodeQueue:
    """Encodes requests in the order in which they come; safe to be used from any thread.

    Args:
        encode: encodes several requests.
        reads: what a request brings.
        together: requests that are encoded at one time.
        begins: called by the thread before anything else.
        waited: learns how many seconds each request waited for its turn.
        without: outputs of a request that brings nothing to encode.
        after: called once the requests of a batch have what they get, or senders have them.
        senders: threads that call `done` while the next batch is encoded; 0: the encoder's does.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[Tensors]], Results],
        *,
        reads: Reads,
        together: int,
        begins: Callable[[], None],
        waited: Callable[[float], None],
        without: Callable[[Tensors], Outputs] = _no_outputs,
        after: Callable[[], None] = nothing,
        senders: int = 0,
    ) -> None:
        self._encode, self._reads, self._without = encode, reads, without
        self._together, self._begins, self._waited = together, begins, waited
        self._after = after
        self._senders = ThreadPoolExecutor(senders, "senders") if senders else None
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="encoder", daemon=True)
        self._thread.start()

    def submit(self, inputs: Tensors, done: Done) -> None:
        """Answer a request now when it is wrong or has no images, else later.

        `inputs`: stay as they are until `done` was called.
        """
        if not self.answered(inputs, done):
            self.put(inputs, done)

    def answered(self, inputs: Tensors, done: Done) -> bool:
        """Return whether a request needs no encoder; then it is answered."""
        try:
            if self._reads(inputs) is not None:
                return False
        except RequestError as error:
            done(error)
        else:
            done(self._without(inputs))
        return True

    def put(self, inputs: Tensors, done: Done) -> None:
        self._waiting.put(_Waiting(inputs, done, time.monotonic()))

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Encode what was put before, and end the thread; one that hangs ends with its process."""
        self._waiting.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger.error("the encoder has not ended after %g s; its thread is abandoned", timeout)

    def _run(self) -> None:
        self._begins()
        sending: list[Future[None]] = []
        while (first := self._waiting.get()) is not None:
            batch = [first]
            while len(batch) < self._together and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    self._waiting.put(None)
                    break
                batch.append(following)
            now = time.monotonic()
            for one in batch:
                self._waited(now - one.since)
            outcomes = self._encoded(batch)
            wait(sending)  # features of two batches lie in memory, and no more
            sending.clear()
            for one, outcome in zip(batch, outcomes, strict=True):
                if self._senders:
                    sending.append(self._senders.submit(deliver, one.done, outcome))
                else:
                    deliver(one.done, outcome)
            self._after()
        wait(sending)

    def _encoded(self, batch: Sequence[_Waiting]) -> Sequence[Outputs | Exception]:
        try:
            return self._encode([one.inputs for one in batch])
        except Exception as error:  # noqa: BLE001 (the clients get it, and the server lives on)
            return [error] * len(batch)


def deliver(done: Done, outcome: Outputs | Exception) -> None:
    """Answer a request; the thread continues with the others when the callback fails."""
    try:
        done(outcome)
    except Exception:
        logger.exception("a request's features could not be handed over")
