"""Configurations of real models, one folder each, and plans made from them."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families import FAMILIES, SERVED
from mm_api.families.family import Kind, Pictures
from mm_ctl.commands.checkpoint_folder import facts_of_folder
from mm_operator.plan.sizing.model_plan import Inputs, plan_model
from mm_operator.plan.sizing.tables import gpu_of
from support.models import spec_of

FOLDER = Path(__file__).resolve().parent.parent / "sizing" / "model-configs"

_ROWS = re.findall(
    r"^\| (\S+) \| (\S+) \|(?:[^|]*\|){5} (\d+) \|",
    (FOLDER / "README.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
_FOLDER_OF = {family: folder for folder, family, _ in _ROWS}

MODELS = {name: _FOLDER_OF[name] for name in FAMILIES}
"""Family -> its model; every family has one."""

FOLDERS = {name: folder for name, folder in MODELS.items() if name in SERVED}
BUILT_ONLY = {name: folder for name, folder in MODELS.items() if name not in SERVED}
"""Families whose engines upstream's server does not know."""

WITH_PICTURES = tuple(name for name in FOLDERS if FAMILIES[name].recipe.vision_type)
FIXED_FEATURES = tuple(name for name in WITH_PICTURES if FAMILIES[name].pictures is Pictures.SQUARE)
ENCODER_DECODERS = tuple(name for name in FOLDERS if FAMILIES[name].kind is Kind.ENCODER_DECODER)

VERSIONS = ("0.16.0", "0.18.2", "0.19.0", "0.20.0", "1.0.0", "1.2.1", "1.3.0rc20")


@cache
def facts_of(family: str) -> ModelFacts:
    """Return the facts of a family's model."""
    return facts_of_folder(FOLDER / MODELS[family], None)


def published_parameters() -> dict[str, int]:
    """Return family -> number of weights, as the README of the folder has it."""
    return {family: int(count) for _, family, count in _ROWS}


def planned(
    family: str,
    engine: Mapping[str, Any] | None = None,
    *,
    gpu: str | GpuModel = "h100-80gb",
    version: str = "0.20.0",
    facts: ModelFacts | None = None,
    **spec: Any,
) -> ModelPlan:
    """Return the plan of a family's model; `engine` and `spec` are fields of the resource."""
    changes = {"engine": {"backend": "TensorRT", **(engine or {})}, **spec}
    changes.setdefault("model", {"allowPickle": True})
    return plan_model(
        Inputs(
            model=family,
            spec=spec_of(changes),
            facts=facts or facts_of(family),
            gpu=gpu_of(gpu) if isinstance(gpu, str) else gpu,
            image=None,
            given_version=version,
            backend=changes["engine"]["backend"],
            builder_version="1",
        )
    )
