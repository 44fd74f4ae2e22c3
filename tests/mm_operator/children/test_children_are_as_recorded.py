"""Every child as YAML, word for word: what a reviewer reads is what the cluster gets."""

from typing import Any

import yaml

from mm_operator.model import Plan, Snapshot
from support.cases import cases
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

DISAGGREGATED: dict[str, Any] = {
    "vision": {
        "placement": "Disaggregated",
        "replicas": 2,
        "featureCacheBytes": "64Mi",
        "resources": {"requests": {"cpu": 1}, "limits": {"memory": "2Gi"}},
    },
    "runtime": {"nodeSelector": {"pool": "serving"}},
}


@cases(
    "name stage",
    {
        "inspection-starts": ("smallest-fresh", fresh()),
        "plan-is-written": ("smallest-planned", inspected(written=False)),
        "build-starts": ("smallest-building", inspected()),
        "pods-start": ("smallest-serving", inspected(built=True)),
        "inspection-with-every-field": ("everything-fresh", fresh(EVERYTHING)),
        "build-with-every-field": ("everything-building", inspected(EVERYTHING)),
        "pods-with-every-field": ("everything-serving", inspected(EVERYTHING, built=True)),
        "encoders-in-pods-of-their-own": (
            "disaggregated-serving",
            inspected(DISAGGREGATED, built=True),
        ),
    },
)
def test_children(name: str, stage: tuple[Snapshot, Plan], golden: Golden) -> None:
    texts = [
        f"# {key}\n{yaml.safe_dump(one, sort_keys=True, width=100)}"
        for key, one in children(stage).items()
    ]
    golden.check(f"{name}.yaml", "---\n".join(texts))
