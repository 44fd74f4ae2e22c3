"""The chart as Helm renders it, through Helm's own SDK."""

import json
from functools import cache
from typing import Any

import helm_python as helm
import yaml

from support.scripts import ROOT

CHART = ROOT / "charts" / "multimodal-operator"
RELEASE = "multimodal-operator"
NAMESPACE = "multimodal-system"

EXHAUSTIVE: dict[str, Any] = {
    "nameOverride": "mm",
    "fullnameOverride": "mm-operator",
    "watchNamespaces": ["team-a", "team-b"],
    "watchNodes": True,
    "userIds": "Namespace",
    "imagePullSecrets": ["registry"],
    "definition": {"upgrade": "Always"},
    "operator": {
        "image": "registry.example/operator@sha256:" + 64 * "0",
        "imagePullPolicy": "Always",
        "replicas": 3,
        "workers": 9,
        "logLevel": "debug",
        "rollouts": {"maxModels": 3},
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"example.org/note": "yes"},
        "podLabels": {"team": "platform"},
    },
    "network": {
        "proxy": {
            "http": "http://proxy.example:3128",
            "https": "http://proxy.example:3129",
            "noProxy": [".svc", "10.0.0.0/8"],
            "requestUrls": True,
        },
        "caBundle": {"configMapName": "authorities", "key": "all.pem"},
        "hubEndpoint": "https://hub.example",
        "ipFamilyPolicy": "PreferDualStack",
    },
    "runtime": {
        "image": "registry.example/runtime:1",
        "vllmImage": "registry.example/vllm:v0.26.0",
        "imagePullSecrets": ["models-registry"],
    },
    "router": {
        "enabled": False,
        "namespaces": ["team-a"],
        "authSecretRef": {"name": "clients", "key": "tokens"},
        "keyLimits": [
            {
                "name": "alice",
                "requestsPerMinute": 61,
                "concurrentRequests": 7,
            }
        ],
        "replicas": 3,
        "logLevel": "debug",
        "maxBodyBytes": 1_000_000,
        "bodyMemoryBytes": 5_000_000_000,
        "maxConnections": 100,
        "hold": {"requests": 50, "bytes": 2_500_000_000, "seconds": 60},
        "drainSeconds": 30,
        "resources": {"requests": {"cpu": 1, "memory": "2Gi"}, "limits": {"memory": "6Gi"}},
        "nodeSelector": {"pool": "edge"},
        "tolerations": [{"key": "edge", "operator": "Exists"}],
        "priorityClassName": "high",
        "from": [{"namespaceSelector": {"matchLabels": {"team": "clients"}}}],
        "service": {"type": "LoadBalancer", "port": 8443, "annotations": {"example.org/lb": "x"}},
        "httpRoute": {
            "enabled": True,
            "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https"}],
            "hostnames": ["models.example.org"],
            "requestTimeout": "600s",
        },
    },
    "inferencePools": [
        {
            "namespace": "team-a",
            "model": "llava",
            "endpointPicker": {"name": "picker", "port": 9002, "failureMode": "FailOpen"},
        }
    ],
    "prometheus": {
        "addresses": ["http://prometheus-0:9090", "http://prometheus-1:9090"],
        "matchLabels": {"cluster": "a", "replica": "x y"},
        "secretName": "prometheus-credentials",
        "serverName": "prometheus.example",
        "insecureSkipVerify": True,
    },
    "autoscaling": {"intervalSeconds": 30},
    "leaderWorkerSet": {"enabled": True},
    "keda": {
        "enabled": True,
        "clusterTriggerAuthentication": "prometheus",
        "authModes": "tls,bearer",
    },
    "serviceAccount": {"create": True, "name": "mm", "annotations": {"example.org/role": "a"}},
    "rbac": {"create": True, "aggregateToUsers": True},
    "admissionPolicy": {"enabled": True, "namespaceLabel": "example.org/models"},
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
        "apiServerPorts": [16443],
        "prometheusPorts": [9091],
        "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 3128}]}],
    },
    "podDisruptionBudget": {"enabled": True},
    "service": {"enabled": True, "port": 80, "annotations": {"prometheus.io/scrape": "true"}},
    "observability": {
        "grafana": "https://grafana.example/",
        "runbooks": "https://runbooks.example/multimodal/",
        "tracing": {"endpoint": "http://collector.monitoring:4318", "samplingRatio": 0.25},
        "gpuHourPrices": {"NVIDIA-L4": 0.81, "NVIDIA-H200": 4},
        "scrapeAnnotations": True,
        "dashboards": {
            "enabled": True,
            "namespace": "monitoring",
            "labels": {"example.org/dashboard": "yes"},
            "annotations": {"grafana_folder": "Multimodal"},
        },
        "rules": {"enabled": True, "labels": {"release": "rules"}},
        "podMonitor": {"enabled": True, "interval": "20s", "labels": {"release": "pods"}},
        "serviceMonitor": {"enabled": True, "interval": "1m30s", "labels": {"release": "services"}},
    },
}
"""Every value set to something that is not its default, switches left on. The router is off:
there is one Deployment."""


def rendered(values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = json.loads(_rendered(json.dumps(values or {})))
    return objects


@cache
def _rendered(values: str) -> str:
    # Both as JSON: tests change what they are given.
    with helm.Chart.load(CHART) as chart:
        texts = chart.render(json.loads(values), name=RELEASE, namespace=NAMESPACE)
    return json.dumps(
        [
            item
            for path, text in sorted(texts.items())
            if path.endswith(".yaml")
            for item in yaml.load_all(text, yaml.CSafeLoader)  # ten times as fast as safe_load_all
            if item is not None
        ]
    )


def of_kind(kind: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [item for item in rendered(values) if item["kind"] == kind]


def refusal(values: dict[str, Any]) -> str:
    """Return what Helm says to values that are wrong; empty: it takes them."""
    try:
        with helm.Chart.load(CHART) as chart:
            chart.render(values, name=RELEASE, namespace=NAMESPACE)
    except helm.HelmError as error:
        return str(error)
    return ""
