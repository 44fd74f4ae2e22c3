"""SmolVLM 2: Idefics3 with another name of its class, and videos: views, each behind its time."""

from dataclasses import replace

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.idefics3 import IDEFICS3, MARKS, WRAPPER
from mm_api.families.prompt import VIDEOS, Moments, PromptStyle

VIDEO = "<video>"

MOMENTS = Moments(
    "\nFrame from {minutes:02d}:{rest:02d}:" + MARKS.edge + MARKS.view + "<image>" + MARKS.edge,
    "<image>",
    frames=1,
    before="You are provided the following series of {count} frames from a {length} [H:MM:SS]"
    " video.\n",
    after="\n\n",
)
"""DEFAULT_VIDEO_INTRO, FRAME_TIMESTAMP_MESSAGE and DEFAULT_MEDIA_OUTTRO of its video processor."""

MOMENT_TOKENS = 16
"""Tokens of a frame without its features: three of its own, and at the most 13 of its time."""

AROUND_TOKENS = 48
"""Before the first frame and behind the last one."""


def video_features(vision: VisionFacts, frames: int) -> int:
    """Return the tokens of frames, one view each, with their times."""
    return AROUND_TOKENS + frames * (vision.features_per_image + MOMENT_TOKENS)


SMOLVLM = replace(
    IDEFICS3,
    name="smolvlm",
    title="SmolVLM 2",
    architectures=("SmolVLMForConditionalGeneration",),
    model_type="smolvlm",
    prompt=PromptStyle(
        "<|im_start|>" + WRAPPER.replace("User:", "User:" + VIDEOS + VIDEO + "{% endfor %}"),
        video=VIDEO,
        moments=MOMENTS,
        tiles=MARKS,
        opening="<|im_start|>",
    ),
    layout=replace(IDEFICS3.layout, video_features=video_features),
    notes=(
        "small images are scaled up, too: even 512 x 512 pixels are 16 tiles and a view of them",
        "a frame of a video is one view behind its time; the chat template has to place videos",
        "a request has images or one video: transformers' own processor keeps the pixels of either",
    ),
)
