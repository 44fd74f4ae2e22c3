"""Image and video parts of a request -> pixels for the engine: fetch, decode, make small."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mm_edge.body_budget import BodyBudget
from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.gateway.media.decoding.jobs import (
    AUDIO_SECONDS,
    IMAGE_SECONDS,
    VIDEO_SECONDS,
    audio_job,
    image_job,
    video_job,
)
from mm_runtime.gateway.media.decoding.pool import Decoders, Run
from mm_runtime.gateway.media.decoding.process import DecoderEndedError
from mm_runtime.gateway.media.decoding.wire import Job
from mm_runtime.gateway.media.frame_choice import EVENLY, FrameChoice
from mm_runtime.gateway.media.frames import Video
from mm_runtime.gateway.media.image_cache import DecodedImageCache
from mm_runtime.gateway.media.recordings import AudioReference, Samples, checked
from mm_runtime.gateway.media.video import VideoLimits
from mm_runtime.images.data_urls import DecodedUrl, decode_data_url
from mm_runtime.images.fetch import FetchRefusedError, ImageFetcher
from mm_runtime.images.media import BadImageError
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.media import LONGEST_VIDEO
from mm_runtime.serving.preprocess.processors.prepared import Detail, ImageProcessor

Pixels = NDArray[np.uint8]
Found = TypeVar("Found", Pixels, Video, Samples)


_LOOKED_UP_AT_ONCE = 64 * 1024
"""Characters of a URL: decoded and digested in 0.06 ms, less than its way to a thread and back."""


@dataclass(frozen=True, slots=True)
class ImageReference:
    """One image of a request: its URL and the part that holds it, for messages."""

    url: str
    param: str
    detail: Detail = "auto"
    """In which it is seen."""


@dataclass(frozen=True, slots=True)
class VideoReference:
    """One video of a request: its URL, the part that holds it, and which of its frames count."""

    url: str
    param: str
    choice: FrameChoice = EVENLY
    options: Mapping[str, object] = field(default_factory=dict)
    """Of the processor, for this video."""


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Limits of one image."""

    max_bytes: int
    max_pixels: int


class ImageLoader:
    """Loads the images of requests."""

    def __init__(
        self,
        *,
        fetcher: ImageFetcher,
        limits: ImageLimits,
        decoders: Decoders,
        known: DecodedImageCache,
        bodies: BodyBudget,
        reads_times: bool,
    ) -> None:
        """Connect the parts; `reads_times`: the model gets the length of a video."""
        self._fetcher = fetcher
        self._limits = limits
        # Few on purpose: a decoded image of the largest size takes hundreds of MB.
        self._decoders = decoders
        self._known = known
        # What is fetched waits for a decoder like what arrives in a body, and counts with it.
        self._bodies = bodies
        self._reads_times = reads_times

    async def load(
        self,
        references: Sequence[ImageReference],
        processors: Sequence[ImageProcessor],
        salt: str = "",
    ) -> tuple[Pixels, ...]:
        """Return uint8[height, width, 3] of each reference, in their order.

        Args:
            references: all images of a request.
            processors: of each, with its detail.
            salt: decoded images are shared with requests of the same one only.

        Raises:
            InvalidRequestError: an image is refused; `param` names the first such part.
        """
        # All are awaited before the first error is raised: which one is named does not depend on
        # which host answers first.
        count = len(references)
        loading = [
            self._load(reference, processor, count, salt)
            for reference, processor in zip(references, processors, strict=True)
        ]
        loaded = await asyncio.gather(*loading, return_exceptions=True)
        refused = next((one for one in loaded if isinstance(one, BaseException)), None)
        if refused is not None:
            try:
                raise refused
            finally:
                # Its traceback holds this frame and the files of all frames below: without a name
                # here they go with it, and with one they stay until a full collection comes by.
                del refused, loaded
        return tuple(one for one in loaded if not isinstance(one, BaseException))

    async def load_video(
        self, reference: VideoReference, processor: ImageProcessor, *, most_frames: int
    ) -> Video:
        """Return the frames of a video; of a longer one, so many that are spread evenly.

        Raises:
            InvalidRequestError: the video is refused.
        """
        limits = VideoLimits(
            self._limits.max_bytes, self._limits.max_pixels, most_frames, reference.choice
        )

        def decoded(run: Run, url: str, encoded: bytes | None) -> Video:
            job = video_job(processor.reduced_frame, limits, is_url=encoded is None)
            content = url.encode("utf-8", "surrogatepass") if encoded is None else encoded
            found = run(job, content, VIDEO_SECONDS)
            return Video(found.array, self._length(found.seconds), found.times)

        return await self._read(reference, decoded, code="invalid_video")

    async def load_recording(self, reference: AudioReference, *, most_samples: int) -> Samples:
        """Return the samples of a recording, at the model's rate.

        Raises:
            InvalidRequestError: the recording is refused.
        """

        def decoded(run: Run, url: str, encoded: bytes | None) -> Samples:
            content = checked(reference, url, encoded, max_bytes=self._limits.max_bytes)
            return run(audio_job(most_samples), content, AUDIO_SECONDS).array

        return await self._read(reference, decoded, code="invalid_audio")

    def _length(self, seconds: float | None) -> float | None:
        """Return the length that the model gets, None where it reads no times.

        Raises:
            BadImageError: longer than the model's preprocessing takes.
        """
        if seconds is None or not self._reads_times:
            return None
        if seconds > LONGEST_VIDEO:
            raise BadImageError(
                f"the video says that it takes {seconds:.0f} seconds, more than {LONGEST_VIDEO}; "
                "send a shorter one, or its frames as data:video/jpeg;base64,<frame>,<frame>"
            )
        return seconds

    async def _load(
        self, reference: ImageReference, processor: ImageProcessor, count: int, salt: str
    ) -> Pixels:
        setting = (count, processor)
        known = self._known_at_once(reference.url, setting, salt)
        if known is not None:
            return known
        job = image_job(processor.reduced, count, self._limits.max_pixels)

        def decoded(run: Run, url: str, encoded: bytes | None) -> Pixels:
            if encoded is None:
                encoded = decode_data_url(url, max_bytes=self._limits.max_bytes)
            reduced = partial(_pixels, run, job, encoded)
            return self._known.through(encoded, setting, reduced, salt)

        return await self._read(reference, decoded, code="invalid_image")

    def _known_at_once(
        self, url: str, setting: tuple[int, ImageProcessor], salt: str
    ) -> Pixels | None:
        """Return a small image of a `data:` URL that was decoded before: it waits for no decoder.

        None: it is new, large, elsewhere, or wrong, which is said where it would be decoded.
        """
        if (
            isinstance(url, DecodedUrl)
            or len(url) > _LOOKED_UP_AT_ONCE
            or url[:5].lower() != "data:"
        ):
            return None
        try:
            encoded = decode_data_url(url, max_bytes=self._limits.max_bytes)
        except BadImageError:
            return None
        return self._known.find(encoded, setting, salt)

    async def _read(
        self,
        reference: ImageReference | VideoReference | AudioReference,
        decoded: Callable[[Run, str, bytes | None], Found],
        *,
        code: str,
    ) -> Found:
        """Fetch, and decode; a `data:` URL holds its bytes itself."""
        url, param = reference.url, reference.param
        try:
            with self._bodies.claim() as claim:
                encoded = None
                if url[:5].lower() != "data:":
                    encoded = await self._fetcher.fetch(url, claim.grow)
                return await self._decoders.through(lambda run: decoded(run, url, encoded))
        except FetchRefusedError as error:
            raise InvalidRequestError(
                f"`{param}`: {error}.", param=param, code=f"{code}_url"
            ) from error
        except (BadImageError, BadRecordingError, RequestError, DecoderEndedError) as error:
            raise InvalidRequestError(f"`{param}`: {error}.", param=param, code=code) from error


def _pixels(run: Run, job: Job, encoded: bytes) -> Pixels:
    return run(job, encoded, IMAGE_SECONDS).array
