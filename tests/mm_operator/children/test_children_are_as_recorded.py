"""Every child as YAML, word for word: what a reviewer reads is what the cluster gets."""

from typing import Any

import yaml

from mm_operator.model import Plan, Snapshot
from support.cases import cases
from support.golden import Golden
from support.gpu_nodes import H100, node
from support.model_configs import facts_of
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
    "runtime": {
        "nodeSelector": {"pool": "serving"},
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2}],
    },
}

HUB: dict[str, Any] = {
    "repo": "acme/llava",
    "revision": "v1",
    "endpoint": "https://hub.example.org",
    "tokenSecretRef": {"name": "hub", "key": "read"},
}
BUCKET: dict[str, Any] = {
    "bucket": "weights",
    "prefix": "team/a",
    "region": "eu-central-1",
    "endpoint": "https://s3.example.org",
    "credentialsSecretRef": {"name": "keys"},
}
PROXY = "http://proxy.example.org:3128"
REMOTE: dict[str, Any] = {
    "model": {"source": {"persistentVolumeClaim": None, "huggingFace": HUB}},
    "build": {"store": {"s3": BUCKET}},
    "network": {
        "proxy": {
            "http": PROXY,
            "https": PROXY,
            "noProxy": [".svc", "10.0.0.0/8"],
        },
        "caBundle": {"configMapName": "authorities", "key": "all.pem"},
    },
    "vision": {"placement": "Disaggregated"},
}
CHECKPOINTS = {"claimName": "checkpoints", "path": "llava"}
ADAPTERS: list[dict[str, Any]] = [
    {"persistentVolumeClaim": {"claimName": "checkpoints", "path": "adapters/one.tar.gz"}},
    {"persistentVolumeClaim": {"claimName": "tuned", "path": "two"}},
    {"huggingFace": {"repo": "another/three", "revision": "v1"}},
    {"s3": {"bucket": "adapters", "prefix": "four"}},
]
LORA = [{"name": f"a{number}", "source": source} for number, source in enumerate(ADAPTERS)]
GPU = {"runtime": {"gpu": {"product": H100}}}
PYTORCH = {
    "engine": {"backend": "PyTorch", "maxImagesPerRequest": 1},
    "build": {"trtllmVersion": "1.1.0"},
    **GPU,
}
VLLM = {"engine": {"backend": "VLLM"}, **GPU}
NODES: dict[str, Any] = {
    "engine": {"backend": "VLLM", "parallelism": {"tensor": 2, "pipeline": 2, "nodes": 2}},
    "runtime": {
        **GPU["runtime"],
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
    },
    "gateway": {"authSecretRef": {"name": "tokens", "key": "clients"}},
}
ENCODERS = {"vision": {"placement": "Disaggregated", "engine": "Torch"}}
DEVICES: dict[str, Any] = {
    "engine": {"backend": "TensorRT", "parallelism": {"tensor": 2}},
    "build": {"trtllmVersion": "0.20.0"},
    "runtime": {
        "gpu": {
            "deviceClassName": "gpu.nvidia.com",
            "deviceSelectors": ["device.attributes['gpu.nvidia.com'].index < 4"],
        }
    },
    "vision": {"placement": "Disaggregated"},
}
ON_A_NODE: dict[str, Any] = {"gpu_nodes": (node("a", H100),), "facts": facts_of("llava")}


def of_source(source: dict[str, Any], **engine: object) -> dict[str, Any]:
    return {"model": {"source": {"persistentVolumeClaim": None, **source}}, "engine": engine}


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
        "inspection-of-the-hub": ("remote-fresh", fresh(REMOTE)),
        "build-into-a-bucket": ("remote-building", inspected(REMOTE, commit="0123" * 10)),
        "pods-pull-from-a-bucket": (
            "remote-serving",
            inspected(REMOTE, built=True, commit="0123" * 10),
        ),
        "inspection-of-a-bucket": ("bucket-fresh", fresh(of_source({"s3": BUCKET}))),
        "inspection-of-adapters": (
            "adapters-fresh",
            fresh(of_source({"persistentVolumeClaim": CHECKPOINTS}, backend="TensorRT", lora=LORA)),
        ),
        "pods-of-pytorch": (
            "pytorch-serving",
            inspected(PYTORCH, built=True, facts=facts_of("qwen2-vl")),
        ),
        "pods-of-vllm": ("vllm-serving", inspected(VLLM, built=True, facts=facts_of("qwen2-5-vl"))),
        "groups-of-vllm": (
            "vllm-nodes-serving",
            inspected(NODES, built=True, facts=facts_of("qwen2-5-vl")),
        ),
        "encoders-of-vllm": (
            "vllm-encoders-serving",
            inspected(VLLM | ENCODERS, built=True, facts=facts_of("llava")),
        ),
        "build-with-claimed-devices": ("devices-building", inspected(DEVICES, **ON_A_NODE)),
        "pods-with-claimed-devices": (
            "devices-serving",
            inspected(DEVICES, built=True, **ON_A_NODE),
        ),
    },
)
def test_children(name: str, stage: tuple[Snapshot, Plan], golden: Golden) -> None:
    texts = [
        f"# {key}\n{yaml.safe_dump(one, sort_keys=True, width=100)}"
        for key, one in children(stage).items()
    ]
    golden.check(f"{name}.yaml", "---\n".join(texts))
