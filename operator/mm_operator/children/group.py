"""Replicas of several nodes: one LeaderWorkerSet per model, of which each group is a replica.

The first pod of a group, its leader, is what a serving pod is otherwise. The others compute a part
of the engine for it, and have nothing that others connect to.
"""

from copy import deepcopy
from typing import Any

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.children.containers import EXIT_SECONDS, SERVER
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.children.serving_pod import rolling_update, rollout_marks
from mm_operator.model import RolloutDecision, Snapshot

_OF_A_SIDECAR = ("restartPolicy", "startupProbe", "livenessProbe", "lifecycle")
"""A worker listens on nothing. When its process ends, its group is made again."""

_OF_THE_GATEWAY = frozenset({"auth", "features"})


def serving_group(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    template: dict[str, Any],
    rollout: RolloutDecision,
) -> Manifest:
    """Return the LeaderWorkerSet of a template."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": own_metadata(
            snapshot,
            name=names.group(snapshot.name),
            component=labels.Component.SERVER,
            annotations=rollout_marks(rollout),
        ),
        "spec": {
            "replicas": spec.replicas,
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": rolling_update(spec.rollout),
            },
            "startupPolicy": "LeaderCreated",  # the leader is ready only when all have met
            "leaderWorkerTemplate": {
                "size": spec.engine.parallelism.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": template,
                "workerTemplate": worker_template(template),
            },
        },
    }


def worker_template(leader: dict[str, Any]) -> dict[str, Any]:
    """Return the pod template of the other pods of a group."""
    template = deepcopy(leader)
    metadata, spec = template["metadata"], template["spec"]
    metadata["labels"][labels.APP_COMPONENT] = labels.Component.WORKER
    metadata["annotations"] = {  # there is no page to scrape
        labels.SERVING_HASH: metadata["annotations"][labels.SERVING_HASH]
    }
    (server,) = (one for one in spec["initContainers"] if one["name"] == SERVER)
    spec["initContainers"] = [one for one in spec["initContainers"] if one is not server]
    server = {name: value for name, value in server.items() if name not in _OF_A_SIDECAR}
    spec["containers"] = [server | {"args": [*server["args"], "--headless"]}]
    # A leader that drains has its workers until it has ended. A vLLM that waits for a leader which
    # is gone ignores SIGTERM.
    spec["terminationGracePeriodSeconds"] = EXIT_SECONDS
    spec["volumes"] = [one for one in spec["volumes"] if one["name"] not in _OF_THE_GATEWAY]
    for constraint in spec.get("topologySpreadConstraints", ()):
        constraint["labelSelector"]["matchLabels"][labels.APP_COMPONENT] = labels.Component.WORKER
    return template
