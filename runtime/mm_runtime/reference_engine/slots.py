"""Whose each slot of a model is.

Decoding requests have the first slots, without a gap; the one whose prompt is read has the slot
after them, and after it comes one whose prompt is read next, if a pass with its first part has
begun.
"""

from mm_runtime.reference_engine.model import SlotModel
from mm_runtime.reference_engine.running import Running


class Slots:
    """Of one engine's model. One thread changes it."""

    def __init__(self, model: SlotModel) -> None:
        self._model = model
        self.decoding: list[Running] = []
        """Slot n holds the n-th of these."""

        self.reading: Running | None = None
        self.next: Running | None = None
        """It waits for a pass with its first part, which was begun, to be looked at."""

    @property
    def unread(self) -> list[Running]:
        """Return those whose prompts are not read yet, in the order of their slots."""
        return [one for one in (self.reading, self.next) if one is not None]

    @property
    def running(self) -> list[Running]:
        return [*self.decoding, *self.unread]

    def turn_to_next(self) -> None:
        if self.reading is None:
            self.reading, self.next = self.next, None

    def decode(self) -> None:
        if self.reading is not None:
            self.decoding.append(self.reading)
            self.reading = None

    def decoding_slot(self, running: Running) -> int | None:
        found = (slot for slot, one in enumerate(self.decoding) if one is running)
        return next(found, None)

    def drop_reading(self) -> None:
        self.reading = None
        self._close(len(self.decoding))

    def leave(self, slot: int) -> None:
        """Free the slot of a decoding request; the last one moves into it."""
        last = len(self.decoding) - 1
        if slot != last:
            self._model.move(last, slot, self.decoding[last].length)
            self.decoding[slot] = self.decoding[last]
        self.decoding.pop()
        self._close(last)

    def clear(self) -> None:
        self.decoding, self.reading, self.next = [], None, None

    def _close(self, free: int) -> None:
        for slot, one in enumerate(self.unread, start=free):
            self._model.move(slot + 1, slot, one.length)
