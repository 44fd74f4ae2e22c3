"""The YAML tables of this package, parsed once: GPUs, images, upstream's tools and flags."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

from mm_api.documents.trtllm_build import GpuModel
from mm_operator.errors import SpecError

_MIB = 1 << 20
_NUMBER = re.compile(r"\d+")
_RELEASE_PARTS = 3

Version = tuple[int, int, int, int]


@cache
def table(name: str) -> Mapping[str, Any]:
    return dict(yaml.safe_load(data_of(f"{name}.yaml")))


def data_of(name: str) -> str:
    return (resources.files("mm_operator.plan.engine.data") / name).read_text("utf-8")


@cache
def version_of(text: str) -> Version:
    """Return a version as numbers, candidates before their release; SpecError: it is none."""
    if not re.match(r"\d+\.\d+", str(text)):
        raise SpecError(
            "VersionUnknown", f"{text!r} is not a TensorRT-LLM version: write it as in 0.20.0"
        )
    release, candidate, _ = str(text).partition("rc")
    numbers = [int(number) for number in _NUMBER.findall(release)][:_RELEASE_PARTS]
    numbers += [0] * (_RELEASE_PARTS - len(numbers))
    major, minor, patch = numbers
    return (major, minor, patch, -1 if candidate else 0)


def trtllm_version(
    image: str | None, given: str | None, serving: str | None = None
) -> tuple[str, str]:
    """Return the TensorRT-LLM version of an image, and where it is known from; or a SpecError.

    `given`: the version that the user names; it wins over tags, which must not contradict each
    other all the same. `serving`: the image that serves, where another one builds.
    """
    images: dict[str, dict[str, str]] = table("images")["images"]
    built, served = check_images(image, serving)
    if given:
        version_of(given)
        return given, "as given"
    if not image:
        newest = max(images)
        return images[newest]["trtllm"], f"of the newest image that is known, {newest}"
    if built is None or served is None:
        which = image if built is None else serving
        raise SpecError(
            "ImageUnknown",
            f"the TensorRT-LLM of {which} is not known: its tag names none (known: "
            f"{min(images)} to {max(images)}-trtllm-python-py3): set "
            "spec.build.trtllmVersion, for example to 0.20.0 (mmctl plan: --trtllm-version)",
            "spec.build.trtllmVersion",
        )
    return built, f"of the image's tag {_tag(image)}"


def check_images(image: str | None, serving: str | None) -> tuple[str | None, str | None]:
    """Return the versions that both images' tags name; None: no name. SpecError: they differ."""
    built, served = _version_in(image or ""), _version_in(serving or image or "")
    if built and served and built != served:
        raise SpecError(
            "ImagesDiffer",
            f"{serving} has TensorRT-LLM {served}, and the engine is built with {built}, which no "
            "other version can load: use one image for both",
            "spec.runtime.image",
        )
    return built, served


def _version_in(image: str) -> str | None:
    row: dict[str, str] = table("images")["images"].get(release_of(image) or "", {})
    return row.get("trtllm")


def release_of(image: str) -> str | None:
    """Return the release that an image's tag begins with, such as 25.06; None: it has none."""
    release = re.match(r"^(\d\d\.\d\d)(-|$)", _tag(image))
    return release[1] if release else None


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def gpu_names() -> list[str]:
    return [row["name"] for row in table("gpus")["gpus"]]


def gpu_of(name: str) -> GpuModel:
    """Return a GPU by its short name or by its product label. SpecError: not in the table."""
    wanted = name.lower()
    for row in table("gpus")["gpus"]:
        if wanted in {row["name"], row["product"].lower()}:
            return GpuModel(
                product=row["product"],
                memory_bytes=usable_bytes(row["memoryMib"]),
                compute_capability=row["computeCapability"],
            )
    raise SpecError(
        "GpuUnknown",
        f"{name!r} is not in the table of GPUs: use one of {', '.join(gpu_names())}, or "
        "--gpu-memory and --compute-capability",
        "spec.runtime.gpu.product",
    )


def usable_bytes(memory_mib: int) -> int:
    """Return what a process gets of the memory that nvidia-smi and the node's label name."""
    driver: int = table("gpus")["driverMib"]
    return max(1, memory_mib - driver) * _MIB


def era(rows: list[dict[str, Any]], version: Version) -> dict[str, Any]:
    """Return the first row whose `until` is not before the version."""
    return next(row for row in rows if version <= version_of(str(row["until"])))


@cache
def flags_of(program: str, version: Version) -> frozenset[str]:
    """Return the flags that a program of one TensorRT-LLM version takes, without dashes."""
    row = table("tools")["flags"][program]
    since: dict[str, str] = row.get("since", {})
    until: dict[str, str] = row.get("until", {})
    return frozenset(
        flag
        for flag in row["all"]
        if version_of(since.get(flag, "0.0")) <= version <= version_of(until.get(flag, "999.0"))
    )
