"""Configurations of real models, one folder each, and plans made from them."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.documents.trtllm_build import GpuModel
from mm_operator.cli.checkpoint_folder import facts_of_folder
from mm_operator.plan.sizing.model_plan import Inputs, plan_model
from mm_operator.plan.sizing.tables import gpu_of
from support.models import spec_of

FOLDER = Path(__file__).resolve().parent.parent / "sizing" / "model-configs"

FOLDERS = {
    "blip2-opt": "Salesforce--blip2-opt-2.7b",
    "llava": "llava-hf--llava-1.5-7b-hf",
    "vila": "Efficient-Large-Model--VILA1.5-3b",
    "llava-onevision": "llava-hf--llava-onevision-qwen2-7b-ov-hf",
    "mllama": "meta-llama--Llama-3.2-11B-Vision-Instruct",
    "qwen2-vl": "Qwen--Qwen2-VL-7B-Instruct",
    "t5": "google-t5--t5-small",
    "flan-t5": "google--flan-t5-small",
    "mt5": "google--mt5-small",
    "byt5": "google--byt5-small",
    "bart": "facebook--bart-large-cnn",
    "mbart": "facebook--mbart-large-50-many-to-one-mmt",
    "nmt": "fairseq--wmt14.en-fr.joined-dict.transformer",
    "whisper": "openai--whisper-large-v3",
}
"""Family -> its model."""

BUILT_ONLY = {"blip2-t5": "Salesforce--blip2-flan-t5-xl"}
"""Families whose engines upstream's server does not know."""

MODELS = FOLDERS | BUILT_ONLY

WITH_PICTURES = ("blip2-opt", "llava", "vila", "llava-onevision", "mllama", "qwen2-vl")
FIXED_FEATURES = ("blip2-opt", "llava", "vila")
ENCODER_DECODERS = ("t5", "flan-t5", "mt5", "byt5", "bart", "mbart", "nmt", "whisper")

VERSIONS = ("0.16.0", "0.18.2", "0.19.0", "0.20.0", "1.0.0", "1.2.1", "1.3.0rc20")


@cache
def facts_of(family: str) -> ModelFacts:
    """Return the facts of a family's model."""
    return facts_of_folder(FOLDER / MODELS[family], None)


def published_parameters() -> dict[str, int]:
    """Return family -> number of weights, as the README of the folder has it."""
    rows = re.findall(
        r"^\| (\S+) \| (\S+) \|(?:[^|]*\|){5} (\d+) \|",
        (FOLDER / "README.md").read_text(),
        re.MULTILINE,
    )
    return {family: int(count) for folder, family, count in rows if folder in MODELS.values()}


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
