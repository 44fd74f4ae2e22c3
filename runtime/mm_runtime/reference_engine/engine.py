"""In-flight batching: requests join and leave between steps, each step decodes all of them at once.

One thread owns the model. A step runs one token of every decoding request and a part of one prompt,
in one forward pass; `schedule` says how large a part, so that prompts never stall the others.

An error of one request stays with it: to start it, to choose its next token, to send its
text. Only an error of the pass itself, which computes all rows at once and names none, fails
every request that was in it; those that wait are not affected.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from mm_api.documents.build_plan import EngineLimits
from mm_runtime.reference_engine.model import Part, SlotModel
from mm_runtime.reference_engine.running import Running
from mm_runtime.reference_engine.sampling import TokenChooser
from mm_runtime.reference_engine.schedule import Shares, rows_of_prompt
from mm_runtime.reference_engine.sinks import cancel, fail, is_cancelled
from mm_runtime.serving.errors import EngineStoppedError, QueueFullError, RequestError
from mm_runtime.serving.generate.request import Request, Sink

logger = logging.getLogger(__name__)

StepObserver = Callable[[Mapping[int, int]], None]

REPORT_INTERVAL_SECONDS = 1.0
"""Prometheus scrapes every 15 s by default, the operator's autoscaler every 5 s at the soonest."""

WAITING_CHECKED_EVERY = 10
"""Waiting requests hold no slot and can be many, so they are checked this much more rarely."""


@dataclass(frozen=True)
class EngineOptions:
    """What bounds the engine."""

    limits: EngineLimits
    """Of the plan."""

    max_queue_size: int
    """Requests that wait; more are refused. 0 means without bound, as in Triton's queue policy."""

    prompt_rows: int
    """Tokens of prompts in one step beside decoding requests, while few wait."""

    cancellation_check_seconds: float = 0.02
    """How often each request is checked for a cancellation by its client."""

    logits_rows: int = 1 << 20
    """Positions of a prompt whose logits are computed at one time, for requests that want them."""


@dataclass(frozen=True)
class EngineCounts:
    """What the engine has done and is doing."""

    running: int
    waiting: int
    steps: int
    """Forward passes that decoded."""

    decoded_tokens: int
    """Tokens of those passes: more than `steps` when requests shared them."""


class Engine:
    """Serves requests from any thread with one model."""

    def __init__(self, model: SlotModel, options: EngineOptions) -> None:
        """Prepare; `start` begins to serve."""
        self._model = model
        self._options = options
        self._wake = threading.Condition()
        self._waiting: deque[tuple[Request, Sink]] = deque()
        self._decoding: list[Running] = []
        """Slot n holds the n-th of these."""

        self._prefilling: Running | None = None
        """At most one; its slot comes right after the decoding ones."""

        self._steps = 0
        self._decoded_tokens = 0
        self._sizes: Counter[int] = Counter()
        """Decoding steps that were not reported yet: requests of a step -> such steps."""

        self._observe_steps: StepObserver = _no_observer
        self._reported_at = 0.0
        self._stopping = False
        self._checked = 0.0
        self._checks = 0
        self._thread = threading.Thread(target=self._run, name="reference-engine", daemon=True)

    def start(self, observe_steps: StepObserver | None = None) -> None:
        """Begin to serve.

        Args:
            observe_steps: receives, from time to time and before the engine is idle, the steps
                since its last call: requests of a step -> such steps. Called from the engine's
                thread; must not block.
        """
        self._observe_steps = observe_steps or _no_observer
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Refuse new requests, fail those that wait or run, and end the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout)

    def counts(self) -> EngineCounts:
        """Return a snapshot; its numbers may be a step apart."""
        running = len(self._decoding) + (self._prefilling is not None)
        return EngineCounts(running, len(self._waiting), self._steps, self._decoded_tokens)

    def submit(self, request: Request, sink: Sink) -> None:
        """Queue a request; its answer goes to `sink`.

        Raises:
            RequestError: it can never be served: see the message for the limit.
            QueueFullError: too many wait already.
            EngineStoppedError: the engine is stopping.
        """
        self._check(request)
        with self._wake:
            if self._stopping:
                raise EngineStoppedError("the server is shutting down; send the request again")
            # Those that will fill free slots wait for their prompts' turn only, not for others.
            waiting = len(self._waiting) - self._free_slots
            if 0 < self._options.max_queue_size <= waiting:
                raise QueueFullError(
                    f"{waiting} requests wait already (maxQueueSize "
                    f"{self._options.max_queue_size}); try again later"
                )
            self._waiting.append((request, sink))
            self._wake.notify()

    def _check(self, request: Request) -> None:
        prompt, limits = self._model.prompt_length(request), self._options.limits
        if not 1 <= prompt <= limits.max_input_len:
            raise RequestError(
                f"the prompt has {prompt} tokens, image features included; "
                f"1 to {limits.max_input_len} are allowed"
            )
        if prompt >= limits.max_seq_len:
            raise RequestError(
                f"the prompt has {prompt} tokens, which leaves no room for an answer within "
                f"{limits.max_seq_len}"
            )
        if request.max_tokens < 1:
            raise RequestError(f"max_tokens is {request.max_tokens}; it must be at least 1")
        self._model.check(request)

    def _run(self) -> None:
        """Serve until stopped."""
        while True:
            with self._wake:
                while not (self._stopping or self._waiting or self._busy):
                    self._wake.wait()
                if self._stopping:
                    break
            self.turn()
        self._fail_running(
            EngineStoppedError("the server is shutting down; send the request again")
        )
        for _, sink in self._waiting:
            fail(sink, EngineStoppedError("the server is shutting down; send the request again"))
        self._waiting.clear()

    def turn(self) -> None:
        """Do once what the engine's thread does again and again: one pass, and what goes with it.

        For callers that have not started the thread. An error of the pass fails the requests in it
        and no others.
        """
        try:
            self._drop_cancelled()
            self._step()
            self._report_steps()
        except Exception as error:
            logger.exception("a pass of the engine failed with all requests in it")
            self._fail_running(error)

    def _report_steps(self) -> None:
        """Report the steps, once in a while: each report costs calls into Triton."""
        now = time.monotonic()
        if self._sizes and (not self._busy or now - self._reported_at >= REPORT_INTERVAL_SECONDS):
            self._reported_at = now
            sizes, self._sizes = self._sizes, Counter()
            try:
                self._observe_steps(sizes)
            except Exception:
                logger.exception("the steps could not be counted; generation continues")

    @property
    def _free_slots(self) -> int:
        running = len(self._decoding) + (self._prefilling is not None)
        return max(0, self._options.limits.max_batch_size - running)

    @property
    def _busy(self) -> bool:
        return bool(self._decoding) or self._prefilling is not None

    def _drop_cancelled(self) -> None:
        """Free the slots and queue entries of requests whose clients have cancelled."""
        now = time.monotonic()
        if now - self._checked < self._options.cancellation_check_seconds:
            return
        self._checked = now
        self._checks += 1
        if self._prefilling is not None and is_cancelled(self._prefilling.sink):
            cancel(self._prefilling.sink)
            self._prefilling = None
        for slot in reversed(range(len(self._decoding))):
            sink = self._decoding[slot].sink
            if is_cancelled(sink):
                self._leave(slot)
                cancel(sink)
        if self._checks % WAITING_CHECKED_EVERY == 0:
            self._drop_cancelled_waiting()

    def _drop_cancelled_waiting(self) -> None:
        with self._wake:
            waiting = tuple(self._waiting)
        gone = [sink for _, sink in waiting if is_cancelled(sink)]
        if not gone:
            return
        # By identity: requests of several clients may be equal.
        leaving = {id(sink) for sink in gone}
        with self._wake:
            staying = [entry for entry in self._waiting if id(entry[1]) not in leaving]
            self._waiting = deque(staying)
        for sink in gone:
            cancel(sink)

    def _step(self) -> None:
        """Run one token of every decoding request, and part of one prompt, in one pass."""
        decoding, prompt = len(self._decoding), self._prefilling or self._admit()
        self._prefilling = prompt
        part = None if prompt is None else self._part(prompt)
        if part is None and not decoding:
            return
        passed = self._model.run(
            [running.last_token for running in self._decoding],
            [running.length for running in self._decoding],
            part,
        )
        states = passed.decoded
        for running in self._decoding:
            running.length += 1
        if decoding:
            self._steps += 1
            self._decoded_tokens += decoding
            self._sizes[decoding] += 1
        if prompt is not None and part is not None:
            if prompt.request.wanted.context_logits:
                rows = self._options.logits_rows
                for at in range(0, len(passed.read), rows):
                    prompt.note_context(self._model.logits(passed.read[at : at + rows]))
            prompt.prefilled += len(part.rows)
            prompt.length = prompt.prefilled
            if prompt.prefilled == len(prompt.prompt):
                self._prefilling = None
                self._decoding.append(prompt)
                states = torch.cat((states, passed.read[-1:]))
        if len(states):
            self._advance(self._model.logits(states))

    def _part(self, running: Running) -> Part:
        """Return what the next pass reads of a prompt."""
        decoding, limits = len(self._decoding), self._options.limits
        rows = rows_of_prompt(
            Shares(limits.max_num_tokens, self._options.prompt_rows),
            prompt=len(running.prompt),
            left=len(running.prompt) - running.prefilled,
            decoding=decoding,
            waiting=min(1 + len(self._waiting), limits.max_batch_size - decoding),
        )
        start = running.prefilled
        return Part(start, running.prompt[start : start + rows])

    def _admit(self) -> Running | None:
        """Take the request that waited longest, when a slot is free."""
        if len(self._decoding) >= self._options.limits.max_batch_size:
            return None
        with self._wake:
            if not self._waiting:
                return None
            request, sink = self._waiting.popleft()
        try:
            prompt = self._model.begin(len(self._decoding), request)
            chooser = TokenChooser(request, self._model.vocabulary_size)
            limit = self._options.limits.max_seq_len
            # The model has taken what it reads of them; a GPU has no room for both.
            left = replace(request, table=None, features=None)
            return Running(left, sink, prompt, chooser, max_length=limit)
        except Exception as error:
            # It is in no slot yet, so no other code reports the error to the client.
            logger.exception("a request could not be started")
            fail(sink, error)
            return None

    def _advance(self, logits: torch.Tensor) -> None:
        """Choose the next token of every slot and let finished and broken requests leave."""
        likeliest = logits.argmax(dim=-1).tolist()
        finished = []
        first = 0
        for slot, running in enumerate(self._decoding):
            rows = slice(first, first + running.width)
            first = rows.stop
            try:
                if running.advance(logits[rows], likeliest[rows]):
                    finished.append(slot)
            except Exception as error:
                logger.exception("a request failed; those beside it continue")
                finished.append(slot)
                fail(running.sink, error)
        for slot in reversed(finished):
            self._leave(slot)

    def _leave(self, slot: int) -> None:
        """Free a slot; the last decoding request moves into it, so slots stay contiguous."""
        last = len(self._decoding) - 1
        if slot != last:
            self._model.move(last, slot, self._decoding[last].length)
            self._decoding[slot] = self._decoding[last]
        self._decoding.pop()
        if self._prefilling is not None:
            self._model.move(last + 1, last, self._prefilling.length)

    def _fail_running(self, error: Exception) -> None:
        running = [*self._decoding, *([self._prefilling] if self._prefilling else [])]
        self._decoding, self._prefilling = [], None
        for one in running:
            if not one.done:
                fail(one.sink, error)


def _no_observer(_: Mapping[int, int]) -> None:
    """Report to no observer."""
