"""PURE: which media of a request the model takes, by their kind and number."""

from collections.abc import Sequence

from mm_api.families.family import MOST_RECORDINGS
from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.media.images import ImageReference, VideoReference
from mm_runtime.gateway.media.recordings import AudioReference


def check_media(
    model: ServedModel, images: Sequence[ImageReference], videos: Sequence[VideoReference]
) -> None:
    """Refuse images and videos that the model does not take, before any is loaded."""
    limit = model.max_images
    if len(images) > limit:
        param = images[limit].param
        raise InvalidRequestError(
            f"The request has {len(images)} images; this model takes at most {limit} per "
            f"request. `{param}` is the first one too many.",
            param=param,
            code="too_many_images",
        )
    if not videos:
        return
    if not model.max_video_frames:
        raise InvalidRequestError(
            f"This model takes no video. Leave `{videos[0].param}` out.",
            param=videos[0].param,
            code="invalid_content_part",
        )
    if images or len(videos) > 1:
        param = videos[-1].param
        raise InvalidRequestError(
            f"A request has either images or one video. Leave `{param}` out.",
            param=param,
            code="too_many_videos",
        )
    most, wanted = model.max_video_frames, videos[0].choice.num_frames
    if wanted is not None and wanted > most:
        raise InvalidRequestError(
            f"This model takes at most {most} frames of a video; `num_frames` is {wanted}.",
            param=f"{videos[0].param}.video_url.num_frames",
        )


def check_features(model: ServedModel, rows: int) -> None:
    """Refuse more features than the plan has memory for: those of images and videos add up."""
    if model.max_features is not None and rows > model.max_features:
        raise InvalidRequestError(
            f"The images and videos become {rows} tokens together; this model takes at most "
            f"{model.max_features}. Send fewer or smaller ones, or fewer frames (`num_frames`).",
            param="messages",
            code="context_length_exceeded",
        )


def check_recordings(model: ServedModel, recordings: Sequence[AudioReference]) -> None:
    """Refuse recordings that the model does not take."""
    if not recordings:
        return
    if model.audio is None:
        raise InvalidRequestError(
            f"This model takes no audio in conversations. Leave `{recordings[0].param}` out.",
            param=recordings[0].param,
            code="invalid_content_part",
        )
    if len(recordings) > MOST_RECORDINGS:
        param = recordings[MOST_RECORDINGS].param
        raise InvalidRequestError(
            f"The request has {len(recordings)} recordings; this model takes at most "
            f"{MOST_RECORDINGS} per request. `{param}` is the first one too many.",
            param=param,
            code="too_many_recordings",
        )
