"""Recordings of conversations: where they are, and the bytes of a file in a request."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.media.container import BadRecordingError, format_of
from mm_runtime.images.data_urls import split_data_url
from mm_runtime.images.media import BadImageError

Samples = NDArray[np.float32]

_CONTAINERS = {"m4a": "mp4", "webm": "matroska"}
"""Formats of requests that FFmpeg calls differently."""


@dataclass(frozen=True, slots=True)
class AudioReference:
    """One recording of a request: its URL and the part that holds it, for messages."""

    url: str
    param: str
    format: str | None = None
    """As the client names it; None: it does not."""


def checked(reference: AudioReference, url: str, encoded: bytes | None, *, max_bytes: int) -> bytes:
    """Return the bytes of a recording.

    `url`: a `data:` URL, unless it was fetched.

    Raises:
        BadRecordingError: no base64, too long, or of another format than its client says.
    """
    if encoded is None:
        try:
            encoded = split_data_url(url).content(max_bytes=max_bytes)
        except BadImageError as error:
            raise BadRecordingError(str(error).replace("the image", "the recording", 1)) from None
    said = reference.format
    if said is not None and format_of(encoded) != _CONTAINERS.get(said, said):
        raise BadRecordingError(
            f"`format` is {said!r}, and the bytes are "
            f"{format_of(encoded) or 'of no format that is read here'}; correct it"
        )
    return encoded
