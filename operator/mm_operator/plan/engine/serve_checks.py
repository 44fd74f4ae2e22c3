"""What TensorRT-LLM on PyTorch is known not to do: each check has a code, a field and a way out."""

from collections.abc import Iterator
from dataclasses import replace

from mm_api.backends import REFERENCE, TENSORRT, VLLM
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_api.families.upstream_classes import CLASSES, UNREAD, pytorch_of
from mm_operator.errors import SpecError
from mm_operator.plan.engine.checks import Case, check_images, plan_error
from mm_operator.plan.engine.tables import table, version_of

_HALVES = ("float16", "bfloat16")


def check_serving(now: Case) -> Iterator[SpecError]:
    """Return what keeps `trtllm-serve` from serving a model."""
    yield from _version(now)
    yield from _family(now)
    yield from _videos(now)
    yield from _engine(now)


def _version(now: Case) -> Iterator[SpecError]:
    first, release, what = table("images")["pytorch"]["first"], "25.09", ""
    if now.request.exposes_triton:
        # NVIDIA's guide is for 1.2.1: before, upstream's LLM and its inputs have other names.
        first, release, what = "1.2.0", "26.03", " with runtime.triton.expose"
    if version_of(now.version) < version_of(first):
        yield plan_error(
            "engine.backend",
            "BackendTooOld",
            f"PyTorch{what} needs TensorRT-LLM {first} or newer, and the image has {now.version}: "
            f"use an image of {release} or newer",
        )


def check_served_images(now: Case) -> Iterator[SpecError]:
    """Yield errors for more images of a request than a server's class takes."""
    served = pytorch_of(now.family, now.facts)
    if served is not None and served.most_images is not None:
        trtllm = replace(now.family.trtllm, max_images=served.most_images)
        now = replace(now, family=replace(now.family, trtllm=trtllm))
    yield from check_images(now)


def _family(now: Case) -> Iterator[SpecError]:
    served, kind = pytorch_of(now.family, now.facts), now.facts.architecture
    name = now.family.name if now.family.architectures else kind
    if served is None and kind in UNREAD:
        yield plan_error(
            "engine.backend",
            "BackendFamily",
            f"sources of TensorRT-LLM that are newer than the releases planned for list {kind} on "
            "PyTorch, and this version plans no checkpoint of it there: use Reference",
        )
    elif served is None:
        others = sorted(family.name for family in FAMILIES.values() if family.pytorch)
        others += sorted(CLASSES)
        yield plan_error(
            "engine.backend",
            "BackendFamily",
            f"TensorRT-LLM on PyTorch does not serve {name} (it has {', '.join(others)}): "
            f"use {_elsewhere(now.family)}",
        )
    elif served.since and version_of(now.version) < version_of(served.since):
        yield plan_error(
            "engine.backend",
            "BackendTooOld",
            f"TensorRT-LLM on PyTorch serves {name} since {served.since}, and the image has "
            f"{now.version}, without a class {kind}: use {_nearest(served.since)}, or "
            "backend Reference",
        )
    elif not served.images and now.request.max_images:
        yield plan_error(
            "engine.maxImagesPerRequest",
            "BackendTextOnly",
            f"TensorRT-LLM on PyTorch serves {name} without its vision tower: set it to 0, or use "
            f"backend {_elsewhere(now.family)}",
        )


def _elsewhere(family: Family) -> str:
    others = [one.name for one in (TENSORRT, REFERENCE) if family.is_served(one.name)]
    return " or ".join(others or family.backends) or TENSORRT.name


def _videos(now: Case) -> Iterator[SpecError]:
    """Yield an error for videos, which other backends are given."""
    if now.request.max_video_frames is None or now.family.layout.video_features is None:
        return  # where the family reads none at all, the limits say so
    others = [one for one in (VLLM.name, REFERENCE.name) if one in now.family.backends]
    yield plan_error(
        "engine.maxVideoFrames",
        "VideoNotSupported",
        f"TensorRT-LLM on PyTorch is not given videos: use backend {' or '.join(others)}, or remove"
        " the field",
    )


def _nearest(version: str) -> str:
    """Return a phrase for the first image that has a version or a newer one."""
    images: dict[str, dict[str, str]] = table("images")["images"]
    wanted = version_of(version)
    tags = [tag for tag, one in images.items() if version_of(one["trtllm"]) >= wanted]
    return f"an image of {min(tags)} or newer" if tags else "a newer image"


def _engine(now: Case) -> Iterator[SpecError]:
    request = now.request
    if request.lora:
        able = [TENSORRT.name] if now.family.text.adapters else []
        others = [
            f"backend {one}"
            for one in (*able, VLLM.name, REFERENCE.name)
            if now.family.is_served(one)
        ]
        yield plan_error(
            "engine.lora",
            "LoraNotApplied",
            "adapters are not applied on PyTorch, whose classes drop them without an error: use "
            + ", or ".join([*others, "a checkpoint that they were merged into"]),
        )
    if request.max_beam_width > 1:
        yield plan_error(
            "engine.maxBeamWidth",
            "BeamsNotServed",
            "beam search is planned for engines only: set it to 1, or use backend TensorRT",
        )
    if request.dtype != "Auto" and now.facts.dtype in _HALVES and request.dtype != now.facts.dtype:
        yield plan_error(
            "engine.dtype",
            "DtypeNotServed",
            f"trtllm-serve computes in the checkpoint's type, {now.facts.dtype}: set it to that or "
            "to Auto",
        )
    for name, given in (("plugins", request.plugins), ("extraBuildArgs", request.extra_build_args)):
        if given:
            yield plan_error(
                f"engine.{name}",
                "NothingIsBuilt",
                "it is for trtllm-build, which backend PyTorch does not run: remove it",
            )
