"""Whether old pods end before new ones start: as the spec says, or as free GPUs say (Auto)."""

from dataclasses import dataclass

from mm_api.documents.trtllm_build import CUSTOM_PRODUCT
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.model import EnginePlan, GpuNeed, Snapshot, SpareGpus
from mm_operator.plan.engine.encoders import is_disaggregated
from mm_operator.plan.engine.gpu_resource import product_label, resource_of


@dataclass(frozen=True, slots=True)
class Way:
    """How pods are replaced.

    Attributes:
        recreate: every old pod ends first.
        choice: why, where Auto chose.
        need: what must be looked for before Auto can choose.
    """

    recreate: bool = False
    choice: str = ""
    need: GpuNeed | None = None


def way_of_a_new_rollout(
    snapshot: Snapshot, spec: MultimodalModelSpec, engine: EnginePlan | None
) -> Way:
    """Return how a revision replaces the pods of another one."""
    if spec.rollout.strategy != "Auto":
        return Way(recreate=spec.rollout.strategy == "Recreate")
    need = need_of(spec, engine)
    if need is None:
        return Way(choice="Auto rolls, because the pods use no GPU")
    if (claimed := spec.runtime.gpu.device_class_name) is not None:
        why = f"free devices of {claimed} are not counted: strategy Recreate needs none"
        return Way(choice=f"Auto rolls, because {why}")
    if snapshot.spare_gpus is None:
        return Way(need=need)
    return _chosen(snapshot.spare_gpus)


def way_of_this_rollout(snapshot: Snapshot, spec: MultimodalModelSpec) -> Way:
    """Return how the pods are being replaced: what Auto chose at the begin stays."""
    live = snapshot.observed.deployment
    if spec.rollout.strategy != "Auto":
        return Way(recreate=spec.rollout.strategy == "Recreate")
    return Way(live.recreates, live.choice) if live else Way()


def need_of(spec: MultimodalModelSpec, engine: EnginePlan | None) -> GpuNeed | None:
    """Return the GPUs of one more server and, where it has pods of its own, one more encoder."""
    ranks = len(engine.memory.per_gpu) if engine else 0
    ranks = ranks or spec.runtime.gpu.count
    if not ranks:
        return None
    resource = resource_of(spec)
    product = spec.runtime.gpu.product
    if product is None and engine and engine.gpu and engine.gpu.product != CUSTOM_PRODUCT:
        product = engine.gpu.product
    labels = dict(spec.runtime.node_selector)
    if product is not None:
        labels[product_label(resource)] = product
    encoder = engine.memory.encoder if engine else None
    beside = is_disaggregated(spec) and (encoder is None or encoder.context_bytes is not None)
    pods = (ranks, 1) if beside else (ranks,)
    return GpuNeed(resource, pods, labels, tuple(spec.runtime.tolerations))


def _chosen(found: SpareGpus) -> Way:
    if found.free is False:
        return Way(recreate=True, choice=f"Auto ends the old pods first, because {found.why}")
    return Way(choice=f"Auto rolls, because {found.why}")
