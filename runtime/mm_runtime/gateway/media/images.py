"""Image and video parts of a request -> pixels for the engine: fetch, decode, make small."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mm_edge.body_budget import BodyBudget
from mm_edge.errors import InvalidRequestError
from mm_edge.tracing import span
from mm_runtime.gateway.media.as_sent import as_sent
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
from mm_runtime.gateway.media.frame_choice import EVENLY, FrameChoice
from mm_runtime.gateway.media.frames import Video
from mm_runtime.gateway.media.image_cache import DecodedImageCache, Key
from mm_runtime.gateway.media.recordings import AudioReference, Samples, checked
from mm_runtime.gateway.media.video import VideoLimits
from mm_runtime.images.data_urls import decode_data_url
from mm_runtime.images.fetch import FetchRefusedError, ImageFetcher
from mm_runtime.images.media import BadImageError
from mm_runtime.images.plain import plain
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.media import MediaLimits
from mm_runtime.serving.preprocess.processors.prepared import Detail, ImageProcessor
from mm_runtime.serving.preprocess.video import LONGEST_VIDEO

Pixels = NDArray[np.uint8]
Found = TypeVar("Found", Pixels, Video, Samples)
Load = Callable[[], Awaitable[tuple[Pixels, ...]]]
"""uint8[height, width, 3] of each image of a request, in their order; raises as `load`."""


_LOOKED_UP_AT_ONCE = 640 * 1024
"""Characters of a URL: decoded and digested in half a millisecond, as its way to a thread and back
takes."""


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


@dataclass(frozen=True, slots=True)
class _Sought:
    """What is there of an image at once: its file, what that is known by, and its pixels."""

    file: bytes | None = None
    key: Key | None = None
    known: Pixels | None = None


_NOTHING = _Sought()


class ImageLoader:
    """Loads the images of requests."""

    def __init__(
        self,
        *,
        fetcher: ImageFetcher,
        limits: MediaLimits,
        decoders: Decoders,
        known: DecodedImageCache,
        bodies: BodyBudget,
        reads_times: bool,
        keeps_files: bool = False,
    ) -> None:
        """Connect the parts.

        `reads_times`: the model gets the length of a video. `keeps_files`: an image is its file,
        where every reader shows it so.
        """
        self._fetcher = fetcher
        self._limits = limits
        # Few on purpose: a decoded image of the largest size takes hundreds of MB.
        self._decoders = decoders
        self._known = known
        # What is fetched waits for a decoder like what arrives in a body, and counts with it.
        self._bodies = bodies
        self._reads_times = reads_times
        self._keeps_files = keeps_files

    async def load(
        self,
        references: Sequence[ImageReference],
        processors: Sequence[ImageProcessor],
        salt: str = "",
    ) -> tuple[Pixels, ...]:
        """Return uint8[height, width, 3] of each reference, in their order.

        `processors`: of each, with its detail. `salt`: decoded images are shared with requests of
        the same one only.

        Raises:
            InvalidRequestError: an image is refused; `param` names the first such part.
        """
        # All are awaited before the first error is raised: which one is named does not depend on
        # which host answers first.
        count = len(references)
        if not count:
            return ()
        if count == 1:
            return (await self._load(references[0], processors[0], count, salt),)
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

    @asynccontextmanager
    async def ahead(
        self,
        references: Sequence[ImageReference],
        processors: Sequence[ImageProcessor],
        salt: str = "",
    ) -> AsyncIterator[Load]:
        """Yield what loads the images of a request, as `load`.

        One whose file is at hand is decoded while the block does the rest for its request, where a
        decoder is free: it takes no other request's turn. A block that refuses the request waits
        for that decoder; one that was ended instead would have to be started again, in a second.
        A file that goes as it came may be sent up to its last byte meanwhile.
        """
        load = partial(self.load, references, processors, salt)
        if len(references) != 1 or not self._decoders.free:
            yield load
            return
        (reference,), (processor, *_) = references, processors
        sought = self._sought(reference.url, (1, processor), salt)
        if sought.file is None or sought.known is not None:
            yield load if sought.known is None else partial(_at_once, sought.known)
            return
        loading = [asyncio.create_task(self._loaded(reference, processor, 1, salt, sought))]
        loading[0].add_done_callback(_seen)
        sent: Pixels | None = None
        is_kept = False

        async def loaded() -> tuple[Pixels, ...]:
            return (await loading[0] if sent is None else sent,)

        try:
            await asyncio.sleep(0)  # until the decoder has the file
            sent = self._sent_unchecked(sought.file, processor, loading[0])
            yield loaded
            is_kept = sent is not None
        except InvalidRequestError:
            if not loading[0].done():
                await asyncio.wait(loading)
            raise
        finally:
            if not (is_kept or loading[0].done()):
                loading[0].cancel()
                await asyncio.wait(loading)
            # An exception's traceback holds this frame, and the task holds that: see `load`.
            loading.clear()
            sent = None

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

        async def decoded(run: Run, url: str, encoded: bytes | None) -> Video:
            job = video_job(processor.reduced_frame, limits, is_url=encoded is None)
            if encoded is None:
                as_bytes = partial(url.encode, "utf-8", "surrogatepass")
                encoded = await self._decoders.beside(as_bytes)
            found = await run(job, encoded, VIDEO_SECONDS)
            return Video(found.array, self._length(found.seconds))

        return await self._read(reference, decoded, code="invalid_video")

    async def load_recording(self, reference: AudioReference, *, most_samples: int) -> Samples:
        """Return the samples of a recording, at the model's rate.

        Raises:
            InvalidRequestError: the recording is refused.
        """

        async def decoded(run: Run, url: str, encoded: bytes | None) -> Samples:
            content = await self._decoders.beside(
                partial(checked, reference, url, encoded, max_bytes=self._limits.max_bytes)
            )
            return (await run(audio_job(most_samples), content, AUDIO_SECONDS)).array

        return await self._read(reference, decoded, code="invalid_audio")

    def _length(self, seconds: float | None) -> float | None:
        """Return the length that the model gets, None where it reads no times."""
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
        sought = self._sought(reference.url, (count, processor), salt)
        return await self._loaded(reference, processor, count, salt, sought)

    async def _loaded(
        self,
        reference: ImageReference,
        processor: ImageProcessor,
        count: int,
        salt: str,
        sought: _Sought,
    ) -> Pixels:
        if sought.known is not None:
            return sought.known
        setting = (count, processor)
        most = self._limits.max_pixels
        keeps = processor.keeps if self._keeps_files else None
        job = image_job(processor.reduced, count, most, keeps)

        async def decoded(run: Run, url: str, encoded: bytes | None) -> Pixels:
            if sought.file is not None:
                return await made(run, sought.file, sought.key)
            named = partial(self._named, url, encoded, setting, salt)
            content, its_key = await self._decoders.beside(named)
            known = self._known.find(its_key)
            return known if known is not None else await made(run, content, its_key)

        async def made(run: Run, content: bytes, its_key: Key | None) -> Pixels:
            found = await run(job, content, IMAGE_SECONDS)
            pixels = found.array
            if found.media_type:
                pixels = as_sent(pixels.shape, content, found.media_type)
            self._known.keep(its_key, pixels)
            return pixels

        return await self._read(reference, decoded, code="invalid_image")

    def _sent_unchecked(
        self, file: bytes, processor: ImageProcessor, check: "asyncio.Task[Pixels]"
    ) -> Pixels | None:
        """Return an image that can be sent while it is checked; None: it is not, by its headers."""
        found = plain(file) if self._keeps_files else None
        if found is None:
            return None
        media_type, width, height = found
        if width * height > self._limits.max_pixels or not processor.keeps(width, height):
            return None
        return as_sent((height, width, 3), file, media_type, check)

    def _sought(self, url: str, setting: Hashable, salt: str) -> _Sought:
        """Return the file in a small `data:` URL: where it is known, it waits for no decoder.

        Nothing: it is large, elsewhere, or wrong, which is said where it would be decoded.
        """
        if len(url) > _LOOKED_UP_AT_ONCE or url[:5].lower() != "data:":
            return _NOTHING
        try:
            file = decode_data_url(url, max_bytes=self._limits.max_bytes)
        except BadImageError:
            return _NOTHING
        key = self._known.key(file, setting, salt)
        return _Sought(file, key, self._known.find(key))

    def _named(
        self, url: str, encoded: bytes | None, setting: Hashable, salt: str
    ) -> tuple[bytes, Key | None]:
        if encoded is None:
            encoded = decode_data_url(url, max_bytes=self._limits.max_bytes)
        return encoded, self._known.key(encoded, setting, salt)

    async def _read(
        self,
        reference: ImageReference | VideoReference | AudioReference,
        decoded: Callable[[Run, str, bytes | None], Awaitable[Found]],
        *,
        code: str,
    ) -> Found:
        """Fetch, and decode; a `data:` URL holds its bytes itself."""
        url, param = reference.url, reference.param
        try:
            with self._bodies.claim() as claim, span("load media"):
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


def _seen(loading: "asyncio.Task[Pixels]") -> None:
    if not loading.cancelled():
        loading.exception()  # said to a client, or of a request that was refused before


async def _at_once(known: Pixels) -> tuple[Pixels, ...]:
    return (known,)


def detailed(
    processor: ImageProcessor | None, references: Sequence[ImageReference]
) -> list[ImageProcessor]:
    """Return the processor of each image of a request; a model without one is given none.

    Raises:
        InvalidRequestError: a detail that does not act; `param` names the first such part.
    """
    if processor is None:
        return []
    found = []
    for reference in references:
        try:
            found.append(processor.with_detail(reference.detail, len(references)))
        except RequestError as error:
            param = f"{reference.param}.image_url.detail"
            raise InvalidRequestError(
                f"`{param}`: {error}.", param=param, code="unsupported_parameter"
            ) from error
    return found
