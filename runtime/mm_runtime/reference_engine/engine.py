"""In-flight batching: requests join and leave between steps, each step decodes all of them at once.

One thread owns the model. A step runs one token of every decoding request and a part of one prompt,
in one forward pass; `schedule` says how large a part, so that prompts never stall the others.

An error of one request stays with it: to start it, to choose its next token, to send its
text. Only an error of the pass itself, which computes all rows at once and names none, fails
every request that was in it; those that wait are not affected. A pass for which a GPU has no memory
left is run again with half of the prompt's part, without the prompt, with fewer answers. A GPU that
computes nothing more ends the process (`Ending`).
"""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import torch

from mm_runtime.reference_engine.choices import Choices, choices_of
from mm_runtime.reference_engine.deliveries import Deliveries, StepObserver, StepReports
from mm_runtime.reference_engine.model import Follow, Part, Passed, SlotModel
from mm_runtime.reference_engine.options import Ending, EngineCounts, EngineOptions
from mm_runtime.reference_engine.overlapped import Overlapped, continuing
from mm_runtime.reference_engine.running import Running
from mm_runtime.reference_engine.sampling import TokenChooser
from mm_runtime.reference_engine.schedule import rows_of_prompt
from mm_runtime.reference_engine.sinks import cancel, fail, is_cancelled
from mm_runtime.reference_engine.slots import Slots
from mm_runtime.reference_engine.waiting import Waiting
from mm_runtime.serving.errors import (
    EngineStoppedError,
    GpuLostError,
    QueueFullError,
    RequestError,
    is_out_of_memory,
)
from mm_runtime.serving.generate.request import PrefixCounts, Request, Sink

logger = logging.getLogger(__name__)

_STOPPING = "the server is shutting down; send the request again"
_LOST = "the GPU of this server is lost, and the server starts again; send the request again"

WAITING_CHECKED_EVERY = 10
"""Waiting requests hold no slot and can be many, so they are checked this much more rarely."""


_Computed = tuple[Passed, Choices | None]
"""A pass, and what comes next."""


class Engine:
    """Serves requests from any thread with one model."""

    def __init__(self, model: SlotModel, options: EngineOptions) -> None:
        self._model = model
        self._options = options
        self._wake = threading.Condition()
        self._waiting = Waiting(self._wake)
        self._slots = Slots(model)
        self._ahead: Overlapped | None = None
        """A pass that was begun beside the one before it."""

        self._deliveries = Deliveries()
        self._steps = 0
        self._decoded_tokens = 0
        self._reports = StepReports()
        self._ending = Ending(lost=lambda _: False, end=lambda _: None)
        self._stopping = False
        self._checked = 0.0
        self._checks = 0
        self._thread = threading.Thread(target=self._run, name="reference-engine", daemon=True)

    def start(
        self, observe_steps: StepObserver | None = None, ending: Ending | None = None
    ) -> None:
        """Begin to serve.

        `observe_steps`: as `StepReports.observe`, from the engine's thread; must not block.
        `ending`: of the process, when its device computes nothing more; None: no device is lost.
        """
        self._reports.observe = observe_steps or self._reports.observe
        self._ending = ending or self._ending
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Refuse new requests, fail those that wait or run, and end the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout)

    def counts(self) -> EngineCounts:
        """Return a snapshot; its numbers may be a step apart."""
        running = len(self._slots.running)
        return EngineCounts(running, len(self._waiting), self._steps, self._decoded_tokens)

    @property
    def kept(self) -> PrefixCounts | None:
        """Return what was found of earlier requests; None: nothing of them is kept."""
        return self._model.prefixes

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
                raise EngineStoppedError(_STOPPING)
            # Those that will fill free slots wait for their prompts' turn only, not for others.
            free = max(0, self._options.limits.max_batch_size - len(self._slots.running))
            waiting = len(self._waiting) - free
            if 0 < self._options.max_queue_size <= waiting:
                raise QueueFullError(
                    f"{waiting} requests wait already (maxQueueSize "
                    f"{self._options.max_queue_size}); try again later"
                )
            self._waiting.put(request, sink)
            self._wake.notify()

    def _check(self, request: Request) -> None:
        limits, prompt = self._options.limits, self._model.prompt_length(request)
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
        while True:
            with self._wake:
                while not (self._stopping or self._waiting or self._busy):
                    self._wake.wait()
                if self._stopping:
                    break
            self.turn()
        self._fail_running(EngineStoppedError(_STOPPING))
        self._waiting.fail(EngineStoppedError(_STOPPING))

    def turn(self) -> None:
        """Do once what the engine's thread does again and again; for callers without it."""
        try:
            self._drop_cancelled()
            self._step()
            if not self._busy:
                self._deliveries.release()
            self._reports.report(busy=self._busy)
        except GpuLostError as error:
            self._end(error)
        except Exception as error:
            if self._ending.lost(error):
                self._end(error)
                return
            logger.exception("a pass of the engine failed with all requests in it")
            self._fail_running(error)

    def _end(self, error: Exception) -> None:
        with self._wake:
            self._stopping = True
        logger.critical("no request can be computed any more", exc_info=error)
        self._fail_running(GpuLostError(_LOST))
        self._waiting.fail(GpuLostError(_LOST))
        cause = error.__cause__
        self._ending.end(cause if isinstance(cause, Exception) else error)

    @property
    def _busy(self) -> bool:
        return bool(self._slots.running)

    def _drop_cancelled(self) -> None:
        """Free the slots and queue entries of requests whose clients have cancelled."""
        now = time.monotonic()
        if now - self._checked < self._options.cancellation_check_seconds:
            return
        self._checked = now
        self._checks += 1
        slots = self._slots
        if slots.reading is not None and is_cancelled(slots.reading.sink):
            self._keep(len(slots.decoding), slots.reading)
            cancel(slots.reading.sink)
            slots.drop_reading()
        for slot in reversed(range(len(slots.decoding))):
            sink = slots.decoding[slot].sink
            if is_cancelled(sink):
                self._keep(slot, slots.decoding[slot])
                slots.leave(slot)
                cancel(sink)
        if self._checks % WAITING_CHECKED_EVERY == 0 and self._waiting.drop_cancelled():
            self._model.prepare(None)

    def _step(self) -> None:
        """Run one token of every decoding request, and part of one prompt, in one pass.

        Nothing changes before all of it is computed, so that a pass may be run again.
        """
        slots, ahead = self._slots, self._ahead
        self._ahead = None
        if ahead is None and slots.reading is None:
            slots.reading = self._admit(len(slots.decoding))
        # Of what was begun ahead, what no client wants any more is not looked at.
        prompt, part = slots.reading, None
        if prompt is not None:
            decoding = len(slots.decoding)
            part = self._part(prompt, prompt.prefilled, decoding) if ahead is None else ahead.part
        if part is None and not slots.decoding:
            return
        computed = self._tried(prompt, part, ahead)
        if computed is None:
            slots.turn_to_next()
            return
        passed, choices = computed
        self._count(len(slots.decoding))
        if prompt is not None and part is not None:
            prompt.prefilled += len(part.rows)
            prompt.length = prompt.prefilled
            if prompt.prefilled == len(prompt.prompt):
                slots.decode()
            elif broken := passed.broken.get(len(slots.decoding)):
                slots.drop_reading()
                self._fail((prompt.sink, broken))
        slots.turn_to_next()
        if choices is not None:
            self._advance(choices)
        if prompt is not None and (slot := slots.decoding_slot(prompt)) is not None:
            # Not before its first token is on its way: no prompt begins before the next turn.
            self._keep(slot, prompt)

    def _tried(
        self, prompt: Running | None, part: Part | None, ahead: Overlapped | None
    ) -> _Computed | None:
        """Return what a pass computes; None: it found no memory, and the next one takes less."""
        try:
            return self._compute(prompt, part, ahead)
        except Exception as error:
            self._ahead = None
            if not (self._model.repeatable and is_out_of_memory(error)):
                raise
            # Frames of the failed pass hold its tensors as long as their traceback lives.
            shortage = error.with_traceback(None)
        self._make_room(prompt, part, shortage)
        return None

    def _compute(
        self, prompt: Running | None, part: Part | None, ahead: Overlapped | None
    ) -> _Computed:
        if ahead is not None:
            passed = ahead.of(self._slots.decoding)
        else:
            passed = self._model.run(
                [running.last_token for running in self._slots.decoding],
                [running.length for running in self._slots.decoding],
                part,
            )
        advancing = [*self._slots.decoding]
        read = 0 if part is None else len(part.rows)
        complete = prompt is None or prompt.prefilled + read == len(prompt.prompt)
        if prompt is not None and complete:
            advancing.append(prompt)
        unread = None if complete else prompt
        beside = partial(self._beside_a_pass, advancing, unread, read)
        if not advancing:
            beside(None)
            return passed, None
        return passed, choices_of(advancing, passed, self._model.logits, beside)

    def _beside_a_pass(
        self,
        advancing: Sequence[Running],
        unread: Running | None,
        read: int,
        tokens: torch.Tensor | None,
    ) -> None:
        """Do what needs no result of the pass that was begun, before it is waited for.

        `unread`: a prompt that the pass does not complete, of which it has `read` rows. `tokens`:
        of those that get one (`advancing`), on the device; None: no request gets one.
        """
        if (follow := self._model.follow) is not None and tokens is not None:
            self._ahead = self._overlapped(follow, advancing, unread, read, tokens)
        self._deliveries.release()
        if self._model.launches:
            taken = len(advancing) + (unread is not None)
            free = self._slots.next is None and taken < self._options.limits.max_batch_size
            with suppress(Exception):  # `begin` fails again, and its client gets the error
                self._model.prepare(self._waiting.first() if free else None)

    def _overlapped(
        self,
        follow: Follow,
        advancing: Sequence[Running],
        unread: Running | None,
        read: int,
        tokens: torch.Tensor,
    ) -> Overlapped | None:
        """Begin the pass after one that was begun; None: its tokens have to be waited for.

        A request that could begin after this pass begins now: its first part is in the next one.
        """
        staying = continuing(advancing)
        if staying is None:
            return None
        slots, after = self._slots, len(advancing)
        completed = advancing[-1] if after > len(slots.decoding) else None
        if unread is None and slots.next is None and self._waiting:
            self._deliveries.release()  # before a prompt that may have to be made
            slots.next = self._admit(after)
        prompt = slots.next if unread is None else unread
        part = None
        if prompt is not None:
            part = self._part(prompt, prompt.prefilled + read * (prompt is unread), len(staying))
            part = replace(part, slot=after)
        if part is None and not staying:
            return None
        positions = [len(one.prompt) if one is completed else one.length + 1 for one in staying]
        try:
            return Overlapped(staying, part, follow(tokens[: len(staying)], positions, part))
        except Exception as error:
            if is_out_of_memory(error):
                return None
            raise

    def _count(self, decoding: int) -> None:
        for running in self._slots.decoding:
            running.length += 1
        if decoding:
            self._steps += 1
            self._decoded_tokens += decoding
            self._reports.add(decoding)

    def _make_room(self, prompt: Running | None, part: Part | None, error: Exception) -> None:
        """Let the next pass take less memory than one that found none left."""
        self._model.release_unused()
        if prompt is not None and part is not None:
            fewer = max(1, len(part.rows) // 2)
            if self._model.cut(len(self._slots.decoding), part.start, fewer) < len(part.rows):
                prompt.most_rows = fewer
                logger.warning(
                    "no memory for %d rows of a prompt (%s): tried again with %d",
                    len(part.rows),
                    str(error),
                    prompt.most_rows,
                )
                return
            self._slots.drop_reading()
            self._fail((prompt.sink, error))
            return
        # The answer that has least to lose.
        decoding = self._slots.decoding
        slot = min(range(len(decoding)), key=lambda at: len(decoding[at].answer))
        logger.error("no memory for a step of %d answers: %s", len(decoding), str(error))
        sink = decoding[slot].sink
        self._slots.leave(slot)
        self._fail((sink, error))

    def _part(self, running: Running, start: int, decoding: int) -> Part:
        """Return what a pass of so many decoding requests reads of a prompt from a row on."""
        limits = self._options.limits
        rows = rows_of_prompt(
            self._options,
            prompt=len(running.prompt),
            left=len(running.prompt) - start,
            decoding=decoding,
            waiting=min(1 + len(self._waiting), limits.max_batch_size - decoding),
        )
        rows = self._model.cut(decoding, start, min(rows, running.most_rows or rows))
        return Part(start, running.prompt[start : start + rows])

    def _admit(self, slot: int) -> Running | None:
        """Give a slot to the request that waited longest; None: there is none, or no such slot."""
        if slot >= self._options.limits.max_batch_size:
            return None
        first = self._waiting.take()
        if first is None:
            return None
        request, sink = first
        try:
            prompt = self._model.begin(slot, request)
            chooser = TokenChooser(request, self._model.vocabulary_size, prompt.device)
            limit = self._options.limits.max_seq_len
            # The model has taken what it reads of them; a GPU has no room for both.
            left = replace(request, table=None, features=None)
            recalled = self._recall(slot, request)
            sink = self._deliveries.to(sink)
            return Running(left, sink, prompt, chooser, max_length=limit, recalled=recalled)
        except Exception as error:
            # It is in no slot yet, so no other code reports the error to the client.
            logger.exception("a request could not be started")
            self._fail((sink, error))
            return None

    def _recall(self, slot: int, request: Request) -> int:
        """Return the positions of a prompt that its slot holds; what cannot be read is computed."""
        try:
            return self._model.recall(slot, request)
        except Exception:
            logger.exception("what is kept of earlier requests could not be read")
            return 0

    def _keep(self, slot: int, running: Running) -> None:
        try:
            self._model.keep(slot, running.request, running.answer, running.length)
        except Exception:
            logger.exception("keys and values of a request could not be kept for others")

    def _fail(self, *failed: tuple[Sink, Exception]) -> None:
        """End requests, each with its error; raises GpuLostError where one is the error of all."""
        lost = next((error for _, error in failed if self._ending.lost(error)), None)
        for sink, error in failed:
            fail(sink, GpuLostError(_LOST) if lost else error)
        if lost:
            raise GpuLostError(_LOST) from lost

    def _advance(self, choices: Choices) -> None:
        """Give every slot its next token, and let finished and broken requests leave."""
        finished = []
        failed = []
        # One answer alone has its piece at once: no other is made slower by its way to the client.
        self._deliveries.delayed = self._model.launches and len(self._slots.decoding) > 1
        for slot, running in enumerate(self._slots.decoding):
            error = choices.errors.get(slot)
            try:
                logits = None if choices.logits is None else choices.logits[slot]
                if error is None and running.advance(logits, choices.chosen[slot]):
                    finished.append(slot)
                    self._keep(slot, running)
            except Exception as raised:  # noqa: BLE001 (of this request, which gets it below)
                error = raised
            if error is not None:
                logger.error("a request failed; those beside it continue", exc_info=error)
                finished.append(slot)
                failed.append((running.sink, error))
        for slot in reversed(finished):
            self._slots.leave(slot)
        self._fail(*failed)

    def _fail_running(self, error: Exception) -> None:
        self._deliveries.release()
        running, self._ahead = self._slots.running, None
        self._slots.clear()
        for one in running:
            if not one.done:
                fail(one.sink, error)
