"""PURE: how often a server that dies is started again in the same pod."""

from dataclasses import dataclass

LIMIT = 3
"""Deaths that end the container: a fourth start would not be luckier, and Kubernetes backs off."""

WINDOW_SECONDS = 300.0
"""Deaths that lie further apart are separate accidents."""

FIRST_DELAY_SECONDS = 1.0
"""Before the first restart; doubled for each one after it. Its requests have failed already."""


@dataclass(frozen=True, slots=True)
class Crashes:
    """When a server died, in the last `WINDOW_SECONDS`."""

    times: tuple[float, ...] = ()

    def after(self, now: float) -> "Crashes":
        """Return these with one more; those that are too long ago are forgotten."""
        return Crashes((*(time for time in self.times if now - time < WINDOW_SECONDS), now))

    @property
    def count(self) -> int:
        return len(self.times)

    @property
    def exhausted(self) -> bool:
        return self.count >= LIMIT

    @property
    def delay_seconds(self) -> float:
        return FIRST_DELAY_SECONDS * (1 << max(self.count - 1, 0))
