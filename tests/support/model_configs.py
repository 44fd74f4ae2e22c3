"""Configurations of real models as folders, and plans made from them."""

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families import FAMILIES, SERVED
from mm_api.families.family import Kind
from mm_ctl.commands.checkpoint_folder import facts_of_folder
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.model_plan import model_plan
from mm_operator.plan.engine.plan import plan_engine
from mm_operator.plan.engine.request import Inputs
from mm_operator.plan.engine.tables import gpu_of, version_of
from mm_runtime.inspect.checkpoint import InspectOptions
from real_models import RealModel, real_models
from support.models import spec_of

_MODEL_OF = {model.family: model for model in real_models()}

MODELS: dict[str, RealModel] = {name: _MODEL_OF[name] for name in FAMILIES}
"""Family -> its model; every family has one."""

FOLDERS = tuple(name for name in MODELS if name in SERVED)
ON_TRITON = tuple(name for name in MODELS if FAMILIES[name].is_served("TensorRT"))
WITH_ENGINES = tuple(name for name in MODELS if FAMILIES[name].has_engines)
WITHOUT_ENGINES = tuple(name for name in MODELS if name not in WITH_ENGINES)

ON_PYTORCH: dict[str, dict[str, Any]] = {
    name: {} if served.images else {"maxImagesPerRequest": 0}
    for name in MODELS
    if (served := FAMILIES[name].pytorch)
}
"""Family -> fields of spec.engine that it needs on PyTorch."""

WITH_IMAGES = tuple(name for name in MODELS if FAMILIES[name].sees)
FIXED_FEATURES = tuple(
    name for name in WITH_IMAGES if name in WITH_ENGINES and FAMILIES[name].layout.is_square
)
ENCODER_DECODERS = tuple(name for name in FOLDERS if FAMILIES[name].kind is Kind.ENCODER_DECODER)


def versions_of(family: str) -> list[str]:
    since = FAMILIES[family].trtllm.since
    return [one for one in VERSIONS if since is None or version_of(one) >= version_of(since)]


NEW_VERSION = "1.2.1"
"""That families without engines are planned for, unless another one is given."""

VERSIONS = ("0.16.0", "0.18.2", "0.19.0", "0.20.0", "1.0.0", "1.2.1", "1.3.0rc20")


@cache
def folder_of(family: str) -> Path:
    """Return a folder with the small files of a family's model; tests only read it."""
    folder = Path(tempfile.mkdtemp(prefix=f"{family}-"))  # goes with the session's others
    return MODELS[family].write(folder)


@cache
def facts_of(family: str) -> ModelFacts:
    return facts_of_folder(folder_of(family), InspectOptions())


def inputs_of(
    family: str,
    engine: Mapping[str, Any] | None = None,
    *,
    gpu: str | GpuModel | None = "h100-80gb",
    version: str | None = None,
    facts: ModelFacts | None = None,
    **spec: Any,
) -> Inputs:
    """Return what a family's model is planned from; `engine` and `spec` are of the resource.

    Of a family without engines, that is what its backend on a GPU is planned from, or the Reference
    engine's where it has one.
    """
    record = FAMILIES[family]
    backend = "TensorRT" if record.has_engines else "PyTorch" if record.pytorch else "Reference"
    backend = backend if record.is_served(backend) else "VLLM"
    changes = {"engine": {"backend": backend, **(engine or {})}, **spec}
    changes.setdefault("model", {"allowPickle": True})
    return Inputs(
        model=family,
        spec=spec_of(changes),
        facts=facts or facts_of(family),
        builder_version="1",
        # A checkpoint's own class is served on the processor.
        gpu=None
        if changes["engine"]["backend"] == "Reference" and not record.has_tower
        else (gpu_of(gpu) if isinstance(gpu, str) else gpu),
        given_version=version or ("0.20.0" if record.has_engines else NEW_VERSION),
    )


def planned(family: str, engine: Mapping[str, Any] | None = None, **more: Any) -> ModelPlan:
    return model_plan(inputs_of(family, engine, **more))


def planned_engine(inputs: Inputs) -> EnginePlan:
    plan = plan_engine(inputs)
    assert isinstance(plan, EnginePlan), plan
    return plan


def reference_inputs(
    facts: ModelFacts, changes: Mapping[str, Any] | None = None, *, builder: str = "1"
) -> Inputs:
    return Inputs(model="m", spec=spec_of(changes), facts=facts, builder_version=builder)


def reference_plan(
    facts: ModelFacts, changes: Mapping[str, Any] | None = None, **more: Any
) -> ModelPlan:
    return model_plan(reference_inputs(facts, changes, **more))


def planned_on_pytorch(
    family: str,
    version: str | None = None,
    *,
    gateway: Mapping[str, Any] | None = None,
    **engine: Any,
) -> ModelPlan:
    """Return the plan of a family's model for trtllm-serve, by default of 1.1 where that has it."""
    served = FAMILIES[family].pytorch
    if version is None:
        since = served.since if served else None
        has = since is None or version_of(since) <= version_of("1.1.0")
        version = "1.1.0" if has else NEW_VERSION
    fields = {"backend": "PyTorch", **ON_PYTORCH[family], **engine}
    return planned(
        family, fields, version=version, model={}, **({"gateway": gateway} if gateway else {})
    )
