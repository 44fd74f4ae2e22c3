"""Whether a model's pods carry the annotations by which a plain Prometheus finds them.

The operator's setting decides for a new revision. The annotations are a part of the pod template,
so a revision keeps what it was rolled out with: a switch of how metrics are found would replace
every pod of every model.
"""

from collections.abc import Mapping
from typing import Any

from mm_api import labels
from mm_api.contract import METRICS_PATH
from mm_operator.model import RolloutDecision, Snapshot
from mm_operator.plan.records import recorded_revision

_SCRAPE = "prometheus.io/scrape"


def scrape_annotations(port: int) -> dict[str, str]:
    return {_SCRAPE: "true", "prometheus.io/port": str(port), "prometheus.io/path": METRICS_PATH}


def is_scraped_by_annotations(snapshot: Snapshot, rollout: RolloutDecision, component: str) -> bool:
    """Return whether a component's pods of the wanted revision have the annotations."""
    of_encoders = component == labels.Component.ENCODER
    deployment = snapshot.observed.encoders if of_encoders else snapshot.observed.deployment
    recorded = recorded_revision(snapshot, rollout.serving_hash)
    if recorded is not None:
        return recorded.announced
    # The Deployment says it too, but any client may have changed that.
    if deployment is not None and deployment.serving_hash == rollout.serving_hash:
        return deployment.announced
    return snapshot.settings.scrape_annotations


def has_scrape_annotations(template: Mapping[str, Any]) -> bool:
    try:
        return bool(template["metadata"]["annotations"][_SCRAPE] == "true")
    except (KeyError, TypeError):  # without, or an overwritten record
        return False
