"""The ConfigMap of one revision: how the pods serve, and how to make its pods again.

Its name carries the revision's hash, so that a container of an old pod never starts with the plan
of a new one.
"""

from mm_api import labels
from mm_operator.children.deployment import template_text
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot
from mm_operator.plan import names
from mm_operator.plan.records import ENCODER_KEY, ENGINE_KEY, POD_KEY, SERVING_KEY


def build_serving_config(
    snapshot: Snapshot, plan: Plan, template: Manifest | None, encoder: Manifest | None
) -> Manifest | None:
    """Return the ConfigMap of the wanted revision; a held revision keeps the one it has.

    Args:
        snapshot: the model.
        plan: its plan.
        template: the pod template that the Deployment gets.
        encoder: that of the encoders' Deployment, if there is one.
    """
    rollout = plan.rollout
    if rollout.held or template is None or plan.serving_plan is None:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": own_metadata(
            snapshot,
            name=names.serving_config(snapshot.name, rollout.serving_hash),
            component=labels.Component.SERVER,
        ),
        "data": {
            SERVING_KEY: plan.serving_plan.to_json(indent=2),
            POD_KEY: template_text(template),
            ENGINE_KEY: plan.engine_config,
            **({ENCODER_KEY: template_text(encoder)} if encoder else {}),
        },
    }
