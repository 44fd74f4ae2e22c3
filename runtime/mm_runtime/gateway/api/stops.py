"""Cuts an answer at the first stop string, which may be spread over several pieces."""


class StopCutter:
    """Passes text on as soon as it cannot become part of a stop string.

    Stop strings work on text, not on tokens: a stop that begins in the middle of a token is found
    too, and the stop string itself is never passed on.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.stopped = False

    def push(self, piece: str) -> str:
        """Take the next piece; return what may be passed on now."""
        if not self._stops:
            return piece
        text = self._held + piece
        found = [index for stop in self._stops if (index := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._held = ""
            return text[: min(found)]
        keep = max((overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        held, self._held = self._held, ""
        return held


def overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of a text may begin a stop string."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
