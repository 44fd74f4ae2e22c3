"""Requests that have no slot yet, in the order in which they came, and what a step reads of one."""

import threading
from collections import deque
from math import ceil

from mm_runtime.reference_engine.options import EngineOptions
from mm_runtime.reference_engine.sinks import cancel, fail, is_cancelled
from mm_runtime.serving.generate.request import Request, Sink


class Waiting:
    """Of one engine. Each method but the length takes its lock, which a caller may hold."""

    def __init__(self, lock: threading.Condition) -> None:
        self._lock = lock
        self._entries: deque[tuple[Request, Sink]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, request: Request, sink: Sink) -> None:
        with self._lock:
            self._entries.append((request, sink))

    def take(self) -> tuple[Request, Sink] | None:
        """Remove the one that waited longest; None: none waits."""
        with self._lock:
            return self._entries.popleft() if self._entries else None

    def first(self) -> Request | None:
        """Return the one that waited longest; None: none waits."""
        with self._lock:
            return self._entries[0][0] if self._entries else None

    def drop_cancelled(self) -> bool:
        """Remove and close those whose clients have cancelled; return whether there were any."""
        with self._lock:
            entries = tuple(self._entries)
        gone = [sink for _, sink in entries if is_cancelled(sink)]
        # By identity: requests of several clients may be equal.
        leaving = {id(sink) for sink in gone}
        if gone:
            with self._lock:
                staying = [entry for entry in self._entries if id(entry[1]) not in leaving]
                self._entries = deque(staying)
        for sink in gone:
            cancel(sink)
        return bool(gone)

    def fail(self, error: Exception) -> None:
        with self._lock:
            entries, self._entries = self._entries, deque()
        for _, sink in entries:
            fail(sink, error)


LONGEST_STEPS = 64
"""Steps that a prompt takes at the most once it is its turn: a video's would else take hundreds."""

WAITING_SHARE = 0.5
"""When more wait than this share of those that decode, parts grow with the square of the ratio: few
would decode together else, and all be slower. Sixteen clients of 20 tokens with prompts of 90 had
5.5 in a step when parts grew with the ratio itself, 8.6 to 12.9 so (tiny model, slots for 16)."""


def rows_of_prompt(
    options: EngineOptions, *, prompt: int, left: int, decoding: int, waiting: int
) -> int:
    """Return how many rows of a prompt the next step reads: few while other requests decode.

    A step reads weights once, for all its rows; an image's prompt read in one step would be a pause
    in every running answer.

    `prompt`: rows of the complete prompt, of which some are `left`. `decoding`: requests that the
    step decodes: those that a long step holds up. `waiting`: requests without a token that there
    are slots for, the prompt's own among them: those that a small part holds up.
    """
    room = max(1, options.limits.max_num_tokens - decoding)
    if not decoding:
        return min(left, room)
    fair = int(options.prompt_rows * max(1.0, waiting / (WAITING_SHARE * decoding)) ** 2)
    if fair < options.grown_rows:
        fair = options.prompt_rows
    return min(left, room, max(fair, ceil(prompt / LONGEST_STEPS)))
