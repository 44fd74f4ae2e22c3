"""The ConfigMap that keeps what the inspection found, so that its Job can go, and the GPU."""

from mm_api import labels
from mm_operator import names
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot
from mm_operator.plan.records import (
    FACTS_KEY,
    GPU_KEY,
    INSPECTION_KEY,
    Inspection,
    read_gpu,
)


def build_facts_config(snapshot: Snapshot, plan: Plan) -> Manifest | None:
    """Return the ConfigMap once there are facts; until then an older one stays as it is."""
    inspect = plan.inspect
    if inspect.facts is None or inspect.inspected_at is None:
        return None
    inspection = Inspection(
        inputs_hash=inspect.inputs_hash, round=inspect.round, inspected_at=inspect.inspected_at
    )
    name = names.facts_config(snapshot.name)
    data = {
        FACTS_KEY: inspect.facts.to_json(indent=2),
        INSPECTION_KEY: inspection.to_json(indent=2),
    }
    # Kept while there is no plan: what is repaired is planned for the same GPU again.
    gpu = plan.engine.gpu if plan.engine else read_gpu(snapshot.observed.configs.get(name))
    if gpu is not None:
        data[GPU_KEY] = gpu.to_json(indent=2)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": own_metadata(
            snapshot,
            name=name,
            component=labels.Component.INSPECT,
            annotations={labels.INPUTS_HASH: inspect.inputs_hash},
        ),
        "data": data,
    }
