"""The encoder's share of a GPU under MPS: as written, or the smallest that was measured."""

from mm_api.documents.serving_plan import GpuSharing
from mm_api.v1alpha1 import VisionSpec

LEAST_PERCENT = 25
"""With 25 a token takes 1.2 to 1.4 times as long while images are encoded without pause, with 50 up
to 1.5 times; below, nothing was measured (bench/sharing: H100)."""


def gpu_sharing(vision: VisionSpec) -> GpuSharing:
    if vision.sharing == "TimeSlicing":
        return GpuSharing(mode="TimeSlicing", thread_percentage=LEAST_PERCENT)
    return GpuSharing(mode="MPS", thread_percentage=vision.thread_percentage or LEAST_PERCENT)
