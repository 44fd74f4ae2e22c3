"""Which images have a TensorRT-LLM that serves a family on PyTorch, and which would be taken."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mm_api.families.family import Family
from mm_ctl.migration.change import Change, Effect, value_at
from mm_operator.errors import SpecError
from mm_operator.plan.engine.tables import release_of, table, trtllm_version, version_of

_IMAGES = ("build.image", "runtime.image")
_VERSION = "build.trtllmVersion"


def first_version(family: Family) -> str:
    """Return the first TensorRT-LLM whose PyTorch backend serves a family."""
    first: str = table("images")["pytorch"]["first"]
    since = family.pytorch.since if family.pytorch else None
    return since or first


def image_changes(
    spec: Mapping[str, Any], family: Family, image: str | None, version: str | None
) -> Iterator[Change]:
    """Yield changes of images and of the version in them.

    `image`: that is to serve; None: those of the spec, with a newer tag where they are too old.
    `version`: of TensorRT-LLM in `image`; None: its tag says it.

    Raises:
        SpecError: a version that does not serve the family, or is not known.
    """
    if image is not None:
        yield from _given(spec, family, image, version)
        return
    named = [path for path in _IMAGES if value_at(spec, path) is not None]
    stated = value_at(spec, _VERSION)
    if stated is not None:
        if not _serves(stated, family):
            raise _too_old(_VERSION, stated, family)
        return
    for path in named:
        current = value_at(spec, path)
        found, _ = trtllm_version(current, None)
        if _serves(found, family):
            continue
        newer = _newer(current)
        if newer is None:
            raise _too_old(path, found, family)
        newest, _ = trtllm_version(newer, None)
        why = f"PyTorch serves the family since {first_version(family)}, and this has {found}"
        yield Change(path, current, newer, Effect.SERVER, f"{why}; the new one has {newest}")


def _given(
    spec: Mapping[str, Any], family: Family, image: str, version: str | None
) -> Iterator[Change]:
    found, why = trtllm_version(image, version)
    if not _serves(found, family):
        raise _too_old("build.image", found, family)
    for path in _IMAGES:
        current = value_at(spec, path)
        if current != image and (current is not None or path == "build.image"):
            yield Change(path, current, image, Effect.SERVER, f"TensorRT-LLM {found}, {why}")
    stated = value_at(spec, _VERSION)
    if stated != version:
        yield Change(_VERSION, stated, version, Effect.SERVER, f"that of {image}")


def _serves(version: str, family: Family) -> bool:
    return version_of(version) >= version_of(first_version(family))


def _newer(image: str) -> str | None:
    """Return the image with the newest release in its tag; None: a digest fixes it."""
    release = release_of(image)
    if release is None or "@" in image:
        return None
    return re.sub(rf":{re.escape(release)}(?=-|$)", f":{max(table('images')['images'])}", image)


def _too_old(path: str, version: str, family: Family) -> SpecError:
    return SpecError(
        "BackendTooOld",
        f"it stands for TensorRT-LLM {version}, and PyTorch serves {family.name} since "
        f"{first_version(family)}: name a newer image with --image (and --trtllm-version, where "
        "its tag is not Triton's)",
        f"spec.{path}",
    )
