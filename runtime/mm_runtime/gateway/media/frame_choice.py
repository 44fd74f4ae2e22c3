"""PURE: which frames of a video are kept, as a request says and the model's room allows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mm_runtime.gateway.media.frames import are_steady
from mm_runtime.images.media import BadImageError


@dataclass(frozen=True, slots=True)
class FrameChoice:
    """What a request says about frames; of several requested the one for the fewest frames wins."""

    fps: float | None = None
    """Frames kept of each second."""

    num_frames: int | None = None
    max_frames: int | None = None

    def places(
        self, count: int, seconds: float | None, most: int, times: Sequence[float] = ()
    ) -> Sequence[int]:
        """Return which frames are kept: evenly spread, the first and the last among them.

        Of a rate that varies, those that a player shows at evenly spread times: one that is
        shown for long is chosen more than once.

        `count`: frames of the video. `seconds`: its length; None: it does not say. `most`: frames
        that the model has room for. `times`: seconds before each; empty: the rate is constant.

        Raises:
            BadImageError: `fps` of a video that has no times.
        """
        requested = [one for one in (self.num_frames, self.max_frames) if one is not None]
        if self.fps is not None:
            if not seconds:
                raise BadImageError(
                    "the video does not say how long it is, so `fps` cannot be honoured; send "
                    "`num_frames` instead"
                )
            requested.append(max(1, round(seconds * self.fps)))
        if seconds and not are_steady(times, seconds):
            # As many as a constant rate would have that shows them all.
            gaps = np.diff([*times, seconds])
            wanted = min([most, *requested, round(seconds / gaps[gaps > 0].min())])
            moments = seconds * np.arange(wanted) / wanted
            return [int(at) - 1 for at in np.searchsorted(times, moments, "right")]
        wanted = min([most, *requested])
        if count <= wanted:
            return range(count)
        return [int(at) for at in np.linspace(0, count - 1, wanted).round()]


EVENLY = FrameChoice()
"""As many frames as the model has room for."""
