"""The encoder's share of a GPU under MPS: the smallest that keeps up with the requested rate.

A batch of images takes its multiplications over what the share multiplies, and a fixed time to be
started. Both numbers are fitted to `bench/sharing/results/h100_shares.json`: towers of three sizes
in float16 under PyTorch on an H100, at 25 to 50 percent, beside a language model that decodes.
There the images a second grow with the share, and what is reckoned here is 1.0 to 1.4 times
slower than what was measured. That another GPU, or TensorRT's engine of the same tower, gets as
near to its data sheet is assumed: no other one was measured.
"""

from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import PlanWarning, Reason
from mm_api.documents.serving_plan import GpuSharing
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families.family import Family
from mm_api.sentences import a
from mm_operator.plan.engine.tables import fp16_tflops
from mm_operator.plan.engine.target import Target
from mm_operator.plan.engine.weights import text_parameters

SHARES = (25, 30, 35, 40, 45, 50)
"""Percent. With 25 a token takes 1.2 to 1.4 times as long while images are encoded without pause,
with 50 up to 1.5 times; above, the language model has the smaller part (bench/sharing: H100)."""

EFFICIENCY = 0.42
"""Share of the data sheet's multiplications that towers reach within their share: 0.42 (5,184
positions) to 0.46 (16 images of 577 positions)."""

START_SECONDS = 0.005
"""Spent on every batch, whatever is in it: 3 to 5 ms where one small image is encoded at a time."""

BUSY = 0.8
"""Images do not come evenly spaced: an encoder that is busier than this is waited for."""

NOTHING_REQUESTED = "the smallest: vision.imagesPerSecond is not set"

_PERCENT = 100
_TERA = 1e12


@dataclass(frozen=True, slots=True)
class EncoderShare:
    """What the encoder gets, why, and the warning about it."""

    sharing: GpuSharing | None
    """None: nothing is shared."""
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What a full batch requires of a GPU."""

    flops: float
    """Operations of one image of the largest size."""
    images: float
    """In a full batch of the vision engine; below 1 where an image has more tiles than that."""

    def per_second(self, tflops: float, percent: int) -> float:
        """Return the images that a share encodes in a second, full batches without a pause."""
        computing = self.flops * self.images / (tflops * _TERA * percent / _PERCENT * EFFICIENCY)
        return self.images / (computing + START_SECONDS)


def work_of(facts: ModelFacts, family: Family, batch: int) -> Work | None:
    """Return the work; None without images.

    Every weight of tower and projector is multiplied with every position, and in each layer every
    position with every other one, twice. Projectors see fewer positions in some families, which
    makes the result a little too large.
    """
    vision = facts.vision
    if vision is None or not batch:
        return None
    tiles, positions = (
        family.layout.tiles_per_image(vision),
        family.layout.positions_per_tile(vision),
    )
    weights = facts.parameters - text_parameters(facts, family)
    tile = 2 * weights * positions + 4 * positions**2 * vision.hidden_size * vision.layers
    return Work(flops=tiles * tile, images=batch / tiles)


def encoder_share(target: Target, batch: int, gpu: GpuModel) -> EncoderShare:
    """Return how the encoder's process and the engine's share a GPU; nothing without images."""
    work, vision = work_of(target.facts, target.family, batch), target.spec.vision
    if work is None:
        return EncoderShare(None)
    written, rate = vision.thread_percentage, vision.images_per_second
    if vision.sharing == "TimeSlicing":
        return EncoderShare(GpuSharing(mode="TimeSlicing", thread_percentage=SHARES[0]))
    if rate is None:
        return _chosen(written or SHARES[0], "as written" if written else NOTHING_REQUESTED)
    tflops = fp16_tflops(gpu.product)
    if tflops is None:
        return _chosen(
            written or SHARES[-1],
            f"the speed of {a(gpu.product)} is not known",
            f"the speed of {a(gpu.product)} is not known, nor whether its encoder keeps "
            f"up with {rate} images a second: measure it, and set vision.threadPercentage",
        )
    tried = (written,) if written else SHARES
    for percent in tried:
        most = work.per_second(tflops, percent)
        if most * BUSY >= rate:
            return _chosen(percent, f"{rate} images/s are requested, and it encodes {most:,.1f}")
    return _chosen(
        tried[-1],
        f"{rate} images/s are requested, and it encodes fewer",
        _too_slow(rate, tried[-1], work, tflops),
    )


def _too_slow(rate: int, percent: int, work: Work, tflops: float) -> str:
    most = work.per_second(tflops, percent)
    pods = -(-rate // max(1, int(most * BUSY)))
    return (
        f"{rate} images a second are requested of each pod's encoder; with {percent} % of the GPU "
        f"it encodes {most:,.1f} of the largest size at most ({work.flops / _TERA:,.2f} TFLOP "
        f"each, {tflops:,} TFLOP/s on the data sheet, {EFFICIENCY} of it reached), and beyond "
        f"{most * BUSY:,.1f} they queue: use {pods} pods with a share of the images each, or "
        "vision.placement Disaggregated"
    )


def _chosen(percent: int, why: str, warning: str | None = None) -> EncoderShare:
    return EncoderShare(
        GpuSharing(mode="MPS", thread_percentage=percent),
        (Reason(field="vision.threadPercentage", value=str(percent), reason=why),),
        (PlanWarning(code="EncoderTooSlow", message=warning),) if warning else (),
    )
