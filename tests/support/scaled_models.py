"""A model under the autoscaler on a real API server, and what it says of itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.absent_kubelet import built, get, inspected, pods, serving
from support.model_documents import at, document
from support.model_namespace import Api
from support.operator_process import OperatorProcess, running_operator
from support.scripted_gateways import ScriptedGateways

SERVERS = "serving.multimodal.dev/model=llava,app.kubernetes.io/component=server"
QUICK = {"scaleDown": {"stabilizationWindowSeconds": 2}}


def scaled(name: str = "llava", **changes: Any) -> dict[str, Any]:
    autoscaling = {
        "minReplicas": 1,
        "maxReplicas": 4,
        "objectives": [{"metric": "TimeToFirstToken", "percentile": 95, "target": "500ms"}],
        "behavior": QUICK,
    }
    spec = at("engine.maxBatchSize", 1)
    return document({**spec, "autoscaling": {**autoscaling, **changes}}, name)


@contextmanager
def operated(
    api: Api, folder: Path, *arguments: str, lease: str = "one", prometheus: str = ""
) -> Iterator[OperatorProcess]:
    """Run an operator that reads a Prometheus at an address; empty: none."""
    every = ["--scaling-interval-seconds=1", *arguments]
    every += [f"--prometheus-address={prometheus}"] if prometheus else []
    with running_operator(
        api.cluster, folder, api.namespace, lease=lease, arguments=tuple(every)
    ) as operator:
        yield operator


def start(api: Api, model: dict[str, Any]) -> None:
    assert "created" in api.apply(model)
    inspected(api, "llava")
    built(api)
    serving(api, "llava")


def scaling(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = get(api, "mmm", "llava").get("status", {}).get("scaling", {})
    return found


def replicas(api: Api) -> int:
    return int(get(api, "mmm", "llava")["spec"]["replicas"])


def active(api: Api) -> dict[str, Any]:
    conditions = get(api, "mmm", "llava").get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "ScalingActive"), {})


def load(api: Api, gateways: ScriptedGateways, **values: float) -> None:
    names = [pod["metadata"]["name"] for pod in pods(api, SERVERS)]
    gateways.serve_only(api.namespace, *names, **values)
