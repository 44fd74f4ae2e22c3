"""Videos as trtllm-serve reads them: async_load_video of tensorrt_llm/inputs/utils.py, 1.2.

OpenCV's part is played by PyAV, as that was measured to act (4.11, 5.0). What fails to load is None
upstream, and the class of the model fails on that.
"""

import base64
import hashlib
import io
import json
import math
import os
import site
from typing import Any

from arguments import VERSION

LIBRARIES = "MM_RECORDED_LIBRARIES"
"""Folder with PyAV."""

DEFAULTS = {"num_frames": 10, "fps": 30}
HEAD = "data:video/mp4;base64"
NOT_LOADED = "'NoneType' object has no attribute 'frames'"


class BadClipError(Exception):
    """A video that upstream does not read, or not beside others."""


class Clips:
    """What one server has read."""

    def __init__(self, media: str | None) -> None:
        kwargs = json.loads(media or "{}").get("video", {})
        if foreign := set(kwargs) - {*DEFAULTS, "format", "device"}:
            name = min(foreign)
            raise TypeError(f"async_load_video() got an unexpected keyword argument '{name}'")
        self._limits = {**DEFAULTS, **kwargs}
        self._kinds: set[str] = set()

    def read(self, url: str) -> list[Any]:
        """Return frames, width, height, frames a second, and a digest of all pixels."""
        head, _, encoded = url.partition(",")
        # Before 1.2 whatever is no http(s) is a path; a path or an address is never sent here.
        if VERSION.startswith(("0.", "1.0.", "1.1.")) or head != HEAD:
            raise BadClipError(NOT_LOADED)
        frames, fps = _decoded(base64.b64decode(encoded, validate=True))
        chosen = [frames[at] for at in self._places(len(frames), fps)]
        digest = hashlib.sha256(b"".join(one.tobytes() for one in chosen)).hexdigest()
        height, width, _ = chosen[0].shape
        return [len(chosen), width, height, fps, digest]

    def check_kinds(self, *, images: bool, videos: bool) -> None:
        """Refuse images and videos of one server: whether they meet in a step is chance.

        Where their numbers differ, find_input_mm_embeds raises this; else answers are wrong.
        """
        self._kinds |= {"image"} if images else set()
        self._kinds |= {"video"} if videos else set()
        if len(self._kinds) > 1:
            raise BadClipError(
                "Number of mm_embeds (2) does not match number of multimodal params (1)."
            )

    def _places(self, count: int, fps: float) -> list[int]:
        wanted = count
        if self._limits["num_frames"] > 0:
            wanted = min(self._limits["num_frames"], count)
        if self._limits["fps"] > 0:
            wanted = min(wanted, math.floor(count / fps * self._limits["fps"]))
        wanted = max(1, wanted)
        if wanted == count:
            return list(range(count))
        import numpy as np  # noqa: PLC0415 (of the folder of libraries)

        places: list[int] = np.linspace(0, count - 1, wanted, dtype=int).tolist()
        return places


def _decoded(content: bytes) -> tuple[list[Any], float]:
    site.addsitedir(os.environ[LIBRARIES])
    import av  # noqa: PLC0415 (of the folder of libraries)

    with av.open(io.BytesIO(content)) as container:
        stream = container.streams.video[0]
        count, rate = stream.frames, float(stream.guessed_rate or 0)
        found = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    # The last frame is looked for first, and a file of one frame is not read from its beginning.
    if count != len(found) or count == 1:
        raise BadClipError(NOT_LOADED)
    return found, rate
