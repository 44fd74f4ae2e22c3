"""What an engine is planned from, and the part of it that stays while sizes are tried."""

from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families.family import Family
from mm_api.v1alpha1 import MultimodalModelSpec


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a plan follows from."""

    model: str
    spec: MultimodalModelSpec
    facts: ModelFacts
    builder_version: str
    gpu: GpuModel | None = None
    """Backend Reference uses none."""

    image: str | None = None
    """That builds; None: the one of the spec."""

    given_version: str | None = None
    serving_image: str | None = None
    """Image of the pods; None: the one of the spec, or the one that builds."""

    uid: str = ""
    """Uid of the model, from which servers and encoders know each other; empty: it has none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A model and its checkpoint."""

    model: str
    spec: MultimodalModelSpec
    facts: ModelFacts
    family: Family
