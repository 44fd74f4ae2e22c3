"""The spec for PyTorch of a spec for engines: all changes, or why there is none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mm_api.backends import DEFAULT, PYTORCH, REFERENCE, TENSORRT, VLLM
from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_ctl.migration.change import Change, Effect, applied, value_at
from mm_ctl.migration.fields import refused, unused
from mm_ctl.migration.images import first_version, image_changes
from mm_operator.errors import SpecError
from mm_operator.plan.engine.tables import table

_SERVER_FIELDS: Final = (
    *("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"),
    *("selfLink", "ownerReferences", "finalizers", "deletionTimestamp"),
)
"""Fields of metadata: the API server's and the operator's, so that `kubectl get -o yaml` can be
piped."""

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

LOST_PARAMETERS: Final = (
    *("prompt", "best_of", "echo", "chat_template_kwargs"),
    *("add_generation_prompt", "continue_final_message"),
)
"""Parameters of completions: TensorRT has them, PyTorch refuses them (docs/parameters.md; a test
compares)."""

GAINED_PARAMETERS: Final = ("min_p", "top_logprobs")


@dataclass(frozen=True, slots=True)
class Migration:
    """A document for PyTorch, with what differs from the one for engines.

    Attributes:
        document: passes validation.
        changes: in the order of the fields.
        notes: what else is lost or gained; None: what is to be checked.
    """

    document: dict[str, Any]
    changes: tuple[Change, ...]
    notes: tuple[tuple[Effect | None, str], ...]


def migrated(
    document: Mapping[str, Any],
    family: Family,
    facts: ModelFacts | None = None,
    *,
    image: str | None = None,
    version: str | None = None,
) -> Migration:
    """Return the spec for PyTorch of a valid one for engines.

    Args:
        document: the resource.
        family: of its checkpoint.
        facts: of its checkpoint; None: they are not known.
        image: that is to serve; None: those of the spec, with a newer tag where they are too old.
        version: of TensorRT-LLM in `image`; None: its tag says it.

    Raises:
        SpecError: the spec is not for engines, or PyTorch does not serve the family, its images
            or a version; says what would do.
    """
    spec = document["spec"]
    _check(spec, family)
    changes = (
        Change("engine.backend", TENSORRT.name, PYTORCH.name, Effect.BUILD, "nothing is built"),
        *_dtype(spec, family, facts),
        *_quantization(spec, family),
        *refused(spec),
        *unused(spec),
        *image_changes(spec, family, image, version),
    )
    kept = {name: value for name, value in document.items() if name != "status"}
    kept["metadata"] = _metadata(document["metadata"])
    kept["spec"] = applied(spec, changes)
    return Migration(kept, changes, tuple(_notes(spec, family)))


def _check(spec: Mapping[str, Any], family: Family) -> None:
    """Refuse what has no counterpart.

    Raises:
        SpecError: with the field and what would do.
    """
    backend = value_at(spec, "engine.backend") or DEFAULT
    if backend != TENSORRT.name:
        raise SpecError(
            "NotEngines",
            f"it is {backend}, and only specs for TensorRT engines are migrated: "
            + ("it is on PyTorch already" if backend == PYTORCH.name else "it needs no engine"),
            "spec.engine.backend",
        )
    if family.pytorch is None:
        raise SpecError(
            "BackendFamily",
            f"TensorRT-LLM on PyTorch does not serve {family.name} "
            f"({' and '.join(family.architectures)}) in any version: {_elsewhere(family)}",
            "spec.model.family",
        )
    images = value_at(spec, "engine.maxImagesPerRequest")
    if not family.pytorch.images and images != 0:
        raise SpecError(
            "BackendTextOnly",
            f"TensorRT-LLM on PyTorch serves {family.name} without its vision tower: set it to 0 "
            f"to migrate a model of text, or {_elsewhere(family)}",
            "spec.engine.maxImagesPerRequest",
        )


def _elsewhere(family: Family) -> str:
    """Return what serves such a model when PyTorch does not."""
    served = sorted(name for name, one in FAMILIES.items() if one.pytorch and one.pytorch.images)
    ways = []
    if family.is_served(REFERENCE.name):
        ways.append("set spec.engine.backend to Reference (spec.runtime.gpu.count 1: on a GPU)")
    elif VLLM.name in family.backends:
        ways.append("set spec.engine.backend to VLLM")
    if family.is_served(TENSORRT.name):
        ways.append("stay on TensorRT and an image up to the last one with engines")
    if family.sees:
        ways.append(f"use a checkpoint of {', '.join(served)}")
    return ", or ".join(ways)


def _dtype(spec: Mapping[str, Any], family: Family, facts: ModelFacts | None) -> Iterator[Change]:
    """Yield a change where the type is another one: trtllm-serve takes the checkpoint's."""
    requested = value_at(spec, "engine.dtype") or "Auto"
    own = facts.dtype if facts else None
    engines = family.dtypes[0] if requested == "Auto" else requested
    if requested not in {"Auto", own}:
        why = f"trtllm-serve computes in the checkpoint's type{f', {own}' if own else ''}"
        yield Change("engine.dtype", requested, "Auto", Effect.LIMIT, why)
    elif own is not None and own != engines:
        why = f"Auto meant {engines} for engines, and means the checkpoint's {own} now"
        yield Change("engine.dtype", None, "Auto", Effect.LIMIT, why)


def _quantization(spec: Mapping[str, Any], family: Family) -> Iterator[Change]:
    requested = value_at(spec, "engine.quantization")
    staged = family.pytorch.quantizations if family.pytorch else ()
    if requested is None:
        return
    if requested in staged:
        yield Change(
            "engine.quantization",
            requested,
            requested,
            Effect.QUANTIZATION,
            "kept: made while the checkpoint is staged, by Model-Optimizer",
        )
        return
    can = f"set it to {' or '.join(staged)}" if staged else "none is made for the family"
    yield Change(
        "engine.quantization",
        requested,
        None,
        Effect.QUANTIZATION,
        f"weights keep the checkpoint's type and take its memory ({can}; or quantize it yourself "
        "with hf_ptq.py of NVIDIA/Model-Optimizer and serve what that writes)",
    )


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in metadata.items() if name not in _SERVER_FIELDS}
    notes = dict(kept.pop("annotations", None) or {})
    notes.pop(_APPLIED, None)
    return {**kept, "annotations": notes} if notes else kept


def _notes(spec: Mapping[str, Any], family: Family) -> Iterator[tuple[Effect | None, str]]:
    last = table("images")["engines"]["last"]
    yield Effect.LOST, f"parameters of requests: {', '.join(LOST_PARAMETERS)}"
    yield Effect.GAINED, f"parameters of requests: {', '.join(GAINED_PARAMETERS)}"
    yield Effect.GAINED, f"releases of TensorRT-LLM after {last}, which have no engines"
    yield Effect.GAINED, "any GPU that holds the checkpoint: nothing is built for one product"
    if not any(value_at(spec, f"{part}.image") for part in ("build", "runtime")):
        needed = first_version(family)
        yield None, f"the operator's --runtime-image must hold TensorRT-LLM {needed} or newer"
    yield None, "limits that the spec leaves out are planned again: mmctl plan shows them"
