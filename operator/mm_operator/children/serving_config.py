"""The ConfigMap of one revision: how the pods serve, and which numbers they keep.

Its name carries the revision's hash, so that a container of an old pod never starts with the plan
of a new one.
"""

from mm_api import labels
from mm_api.contract import SERVING_FILE
from mm_operator import names
from mm_operator.children.device_claims import claimed_by
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot
from mm_operator.plan.records import CLAIMS_KEY, ENGINE_KEY
from mm_operator.plan.revision import LEAST_SECONDS, REVISION_KEY, Revision
from mm_operator.plan.scrape_annotations import has_scrape_annotations
from mm_operator.plan.starts import probe_seconds


def build_serving_config(
    snapshot: Snapshot, plan: Plan, template: Manifest | None, encoder: Manifest | None
) -> Manifest | None:
    """Return the ConfigMap of the wanted revision; a held revision keeps the one it has.

    `template`: the pod template that the Deployment gets. `encoder`: that of encoders in pods of
    their own; None: there are none.
    """
    rollout = plan.rollout
    if rollout.held or template is None or plan.serving_plan is None:
        return None
    revision = Revision(
        start_seconds=probe_seconds(template) or LEAST_SECONDS,
        announced=has_scrape_annotations(template),
    )
    claims = claimed_by(template) | (claimed_by(encoder) if encoder else set())
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": own_metadata(
            snapshot,
            name=names.serving_config(snapshot.name, rollout.serving_hash),
            component=labels.Component.SERVER,
        ),
        "data": {
            # No part of the revision: an engine that is built again keeps the pods that run.
            SERVING_FILE: plan.serving_plan.model_copy(
                update={"manifest_sha256": plan.build.manifest_sha256}
            ).to_json(indent=2),
            REVISION_KEY: revision.to_json(),
            ENGINE_KEY: plan.engine_config,
            **({CLAIMS_KEY: ",".join(sorted(claims))} if claims else {}),
        },
    }
