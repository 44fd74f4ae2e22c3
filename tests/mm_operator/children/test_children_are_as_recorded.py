"""Every child as YAML, word for word: what a reviewer reads is what the cluster gets."""

from typing import Any

import pytest
import yaml

from mm_operator.model import Plan, Snapshot
from support.golden import Golden
from support.staged import children, fresh, inspected

EVERYTHING: dict[str, Any] = {
    "model": {
        "family": "llava",
        "source": {"persistentVolumeClaim": {"claimName": "checkpoints", "path": "llava/best"}},
        "allowPickle": True,
        "trustRemoteCode": True,
    },
    "build": {
        "image": "example.org/build:2",
        "gpu": {"count": 1, "product": "NVIDIA-H100-80GB-HBM3"},
        "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 4, "memory": "8Gi"}},
        "serviceAccountName": "building",
        "store": {"persistentVolumeClaim": {"claimName": "engines", "path": "team/a"}},
        "timeout": "90m",
        "retries": 1,
        "nodeSelector": {"pool": "build"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    },
    "runtime": {
        "image": "example.org/runtime:2",
        "resources": {"limits": {"memory": "16Gi", "cpu": 4}},
        "serviceAccountName": "serving",
        "imagePullSecrets": ["registry"],
        "podLabels": {"team": "a"},
        "triton": {
            "expose": True,
            "allowFrom": [
                {"podSelector": {"matchLabels": {"app": "client"}}, "namespaceSelector": {}},
                {"namespaceSelector": {"matchLabels": {"team": "a"}}},
            ],
        },
        "topologySpreadConstraints": [
            {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "runtimeClassName": "nvidia",
    },
    "gateway": {
        "authSecretRef": {"name": "tokens", "key": "clients"},
        "resources": {"requests": {"cpu": "1"}},
        "requestTimeout": "28s",
    },
    "rollout": {"progressDeadline": "10m", "drainTimeout": "30s"},
    "replicas": 3,
}

APART: dict[str, Any] = {
    "vision": {
        "placement": "Disaggregated",
        "replicas": 2,
        "featureCacheBytes": "64Mi",
        "resources": {"requests": {"cpu": 1}, "limits": {"memory": "2Gi"}},
    },
    "runtime": {"nodeSelector": {"pool": "serving"}},
}


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        pytest.param("smallest-fresh", fresh(), id="inspection-starts"),
        pytest.param("smallest-planned", inspected(written=False), id="plan-is-written"),
        pytest.param("smallest-building", inspected(), id="build-starts"),
        pytest.param("smallest-serving", inspected(built=True), id="pods-start"),
        pytest.param("everything-fresh", fresh(EVERYTHING), id="inspection-with-every-field"),
        pytest.param("everything-building", inspected(EVERYTHING), id="build-with-every-field"),
        pytest.param(
            "everything-serving", inspected(EVERYTHING, built=True), id="pods-with-every-field"
        ),
        pytest.param(
            "disaggregated-serving",
            inspected(APART, built=True),
            id="encoders-in-pods-of-their-own",
        ),
    ],
)
def test_children(name: str, stage: tuple[Snapshot, Plan], golden: Golden) -> None:
    """The objects of a stage are the recorded ones."""
    texts = [
        f"# {key}\n{yaml.safe_dump(one, sort_keys=True, width=100)}"
        for key, one in children(stage).items()
    ]
    golden.check(f"{name}.yaml", "---\n".join(texts))
