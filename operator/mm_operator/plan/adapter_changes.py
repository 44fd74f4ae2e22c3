"""Do changed LoRA adapters go into the pods that run, or are these replaced? With its reason."""

from dataclasses import dataclass

from mm_api.contract import SERVING_FILE
from mm_api.documents.adapter_room import LoraRoom
from mm_api.documents.model_facts import LoraFacts
from mm_api.documents.serving_plan import ServingPlan
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.engine import Backend
from mm_operator import names
from mm_operator.model import Snapshot
from mm_operator.plan.records import parse


@dataclass(frozen=True, slots=True)
class Load:
    """Pods take the adapters in while they serve."""


@dataclass(frozen=True, slots=True)
class RollOut:
    """Every pod is replaced."""

    reason: str


def decide_change(
    room: LoraRoom | None, lora: LoraFacts | None, backend: Backend
) -> Load | RollOut:
    """Return what adapters need of pods that run.

    Args:
        room: that these pods have; None: they have none.
        lora: facts of all adapters that shall be served; None: there are none.
        backend: of the engine.
    """
    if backend != "Reference":
        return RollOut(f"backend {backend} loads adapters at its start")
    if room is None:
        return RollOut("the pods that run have no room for adapters")
    if lora is None:
        return Load()
    if lora.rank > room.max_rank:
        return RollOut(
            f"an adapter has rank {lora.rank}, above the {room.max_rank} that there is room for"
        )
    if len(lora.adapters) > room.max_adapters:
        return RollOut(
            f"no slot is left: {len(lora.adapters)} adapters are wanted, and there is room for "
            f"{room.max_adapters}"
        )
    return Load()


def declared_room(spec: MultimodalModelSpec, key: str) -> LoraRoom | None:
    """Return the room as the spec declares it, whatever its adapters need."""
    declared = spec.engine.lora_room
    if declared is None:
        return None
    return LoraRoom(key=key, max_adapters=declared.max_adapters, max_rank=declared.max_rank)


def room_of_pods(snapshot: Snapshot) -> LoraRoom | None:
    """Return the room that the Deployment's revision was rolled out with."""
    deployment = snapshot.observed.deployment
    if deployment is None:
        return None
    name = names.serving_config(snapshot.name, deployment.serving_hash)
    config = snapshot.observed.configs.get(name)
    plan = parse(ServingPlan, config.data.get(SERVING_FILE)) if config else None
    return plan.lora_room if plan else None
