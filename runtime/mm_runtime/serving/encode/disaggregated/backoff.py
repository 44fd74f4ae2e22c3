"""PURE: encoders that did not answer are left alone for a while, longer each time."""

from dataclasses import dataclass, field

FIRST_SECONDS = 1.0
"""After the first failure: an encoder whose server was started again is back in seconds."""

LONGEST_SECONDS = 30.0
"""An encoder that hangs costs one request its time-out in each of these."""


@dataclass
class Backoff:
    """When each encoder may be called again; times are of a clock that only goes forward."""

    _until: dict[str, float] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)

    def failed(self, encoder: str, now: float) -> None:
        if self.is_backing_off(encoder, now):
            return  # another request of the same moment has said so
        seconds = min(self._last.get(encoder, FIRST_SECONDS / 2) * 2, LONGEST_SECONDS)
        self._last[encoder] = seconds
        self._until[encoder] = now + seconds

    def answered(self, encoder: str) -> None:
        self._until.pop(encoder, None)
        self._last.pop(encoder, None)

    def is_backing_off(self, encoder: str, now: float) -> bool:
        return now < self._until.get(encoder, now)
