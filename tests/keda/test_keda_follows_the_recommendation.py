"""The real KEDA, through the real Prometheus: it follows, it holds when no one answers, it lets go.

Run by `make keda-test`; elsewhere the tests are skipped unless KEDA is compiled already.

They run outside of the cluster as an admin, so what the chart of KEDA would install is its
definitions, a namespace and the APIService.
"""

import json
import logging
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.absent_kubelet import get, serving
from support.clusters import apply, kubectl, namespace
from support.definition import install_definition
from support.ended import logged
from support.eventually import eventually
from support.go_modules import compiled, module_folder
from support.keda_definitions import FILES
from support.model_namespace import Api
from support.operator_process import OperatorProcess
from support.ports import free_ports
from support.prometheus import Prometheus, running_prometheus
from support.scaled_models import active, load, operated, replicas, scaled, scaling, start
from support.scripted_gateways import ScriptedGateways, scripted_gateways

MODULE = "github.com/kedacore/keda/v2"
NAMESPACE = "keda"
START_SECONDS = 120.0
_EXTERNAL = "v1beta1.external.metrics.k8s.io"


@contextmanager
def running_keda(cluster: ClusterInfo, folder: Path) -> Iterator[None]:
    how = "`make keda-test` does that, in 17 CPU-minutes"
    operator, provider = compiled("MM_BUILD_KEDA", how, "keda-operator", "keda-adapter")
    for file in sorted((module_folder("keda", MODULE) / "config" / "crd" / "bases").glob("*.yaml")):
        kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(file))
    metrics, health, grpc, adapter, adapter_metrics = free_ports(5)
    apply(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    apply(cluster, *_registration(adapter))
    _certificates(folder)
    kubeconfig = f"--kubeconfig={cluster.kubeconfig}"
    commands = {
        "operator": [
            *(str(operator), kubeconfig, "--enable-cert-rotation=false"),
            *(f"--metrics-bind-address=127.0.0.1:{metrics}", f"--cert-dir={folder}"),
            f"--health-probe-bind-address=127.0.0.1:{health}",
            f"--metrics-service-bind-address=127.0.0.1:{grpc}",
        ],
        "adapter": [
            *(str(provider), kubeconfig, f"--lister-kubeconfig={cluster.kubeconfig}"),
            f"--authentication-kubeconfig={cluster.kubeconfig}",
            f"--authorization-kubeconfig={cluster.kubeconfig}",
            *(f"--secure-port={adapter}", f"--port={adapter_metrics}", f"--cert-dir={folder}"),
            f"--tls-cert-file={folder / 'tls.crt'}",
            f"--tls-private-key-file={folder / 'tls.key'}",
            f"--metrics-service-address=127.0.0.1:{grpc}",
        ],
    }
    environment = {
        **os.environ,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        "POD_NAMESPACE": NAMESPACE,
        "POD_NAME": "keda-0",
        "WATCH_NAMESPACE": "",
    }
    logs = {name: folder / f"{name}.log" for name in commands}
    with ExitStack() as stack:
        removal = ("delete", "apiservice", _EXTERNAL, "--ignore-not-found")
        stack.callback(kubectl, cluster, *removal)
        processes = [
            stack.enter_context(logged(command, logs[name], environment))
            for name, command in commands.items()
        ]
        _wait(cluster, processes, logs)
        yield


def _wait(
    cluster: ClusterInfo, processes: list[subprocess.Popen[bytes]], logs: dict[str, Path]
) -> None:
    path = "jsonpath={.status.conditions[?(@.type=='Available')].status}"

    def available() -> bool:
        ended = [one for one in processes if one.poll() is not None]
        if ended:
            return True
        return kubectl(cluster, "get", "apiservice", _EXTERNAL, "-o", path) == "True"

    eventually(available, seconds=START_SECONDS, showing=lambda: _tail(logs))
    assert all(one.poll() is None for one in processes), _tail(logs)


def _tail(logs: dict[str, Path]) -> str:
    return "\n".join(f"{name}: {log.read_text()[-2000:]}" for name, log in logs.items())


def _registration(port: int) -> tuple[dict[str, object], ...]:
    name = {"name": "keda-metrics-apiserver", "namespace": NAMESPACE}
    controller = {"name": "horizontal-pod-autoscaler", "namespace": "kube-system"}
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]}
    role = {"name": "keda-external-metrics-reader"}
    return (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": name,
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": _EXTERNAL},
            "spec": {
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {**name, "port": port},
            },
        },
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": role, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": role,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", **role},
            "subjects": [{"kind": "ServiceAccount", **controller}],
        },
    )


def _certificates(folder: Path) -> None:
    """Make one authority and one certificate: the two speak mutual TLS with each other."""
    ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")
    extensions = folder / "extensions"
    extensions.write_text(
        "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n", encoding="utf-8"
    )
    ca, ca_key, request = folder / "ca.crt", folder / "ca.key", folder / "tls.csr"
    for command in (
        ["req", "-x509", *ec, "-subj", "/CN=keda", "-keyout", str(ca_key), "-out", str(ca)],
        [
            *("req", *ec[:-2], "-subj", "/CN=127.0.0.1"),
            *("-keyout", str(folder / "tls.key"), "-out", str(request)),
        ],
        [
            *("x509", "-req", "-in", str(request), "-CA", str(ca), "-CAkey", str(ca_key)),
            *("-CAcreateserial", "-days", "1", "-extfile", str(extensions)),
            *("-out", str(folder / "tls.crt")),
        ],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True, timeout=60)


pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3600)]

_LOG = logging.getLogger(__name__)
FALL_SECONDS = 900.0
"""The policy gives back one replica at a time and looks for 120 s at the least before the next:
three steps take about 390 s."""
HELD_SECONDS = 75.0
"""Four looks of the controller of HorizontalPodAutoscalers, and as many failures as make KEDA fall
back: what is held that long is held by the fallback and not by the first error."""


@dataclass(frozen=True)
class World:
    """Everything that takes part."""

    api: Api
    gateways: ScriptedGateways
    prometheus: Prometheus
    targets: Path
    folder: Path

    def scrape(self, *ports: int) -> None:
        """Report Prometheus whom to scrape: the gateways' port and an operator's."""
        found = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
        self.targets.write_text(json.dumps(found))


@pytest.fixture(name="world")
def world_with_keda(control_plane: ClusterInfo, tmp_path: Path) -> Iterator[World]:
    """An API server with KEDA, a Prometheus, gateways that do as the test says."""
    install_definition(control_plane)
    folders = [tmp_path / name for name in ("keda", "prometheus", "operator")]
    for folder in folders:
        folder.mkdir()
    targets = folders[1] / "targets.json"
    targets.write_text("[]")
    job = {
        "job_name": "all",
        "honor_labels": True,
        "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
    }
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
    with (
        running_keda(control_plane, folders[0]),
        scripted_gateways() as gateways,
        running_prometheus(folders[1], config, port=free_ports(1)[0]) as prometheus,
        namespace(control_plane, f"keda-{uuid4().hex[:8]}") as name,
    ):
        yield World(Api(control_plane, name), gateways, prometheus, targets, folders[2])


def followed(world: World, operator: OperatorProcess) -> None:
    """Let KEDA take a model from one replica to four, under load."""
    world.scrape(world.gateways.port, operator.port)
    start(world.api, scaled(engine="KEDA", fallback={"replicas": 1}))
    load(world.api, world.gateways, requests_running=1, requests_waiting=2, **ARRIVALS)
    eventually(lambda: scaling(world.api).get("desired") == 4, seconds=90)
    eventually(lambda: replicas(world.api) == 4, seconds=120, showing=lambda: reported(world.api))


ARRIVALS = {"requests_accepted_total": 3.0}


def reported(api: Api) -> str:
    found = api.read("scaledobject,hpa")["items"]
    return json.dumps([one.get("status") for one in found], indent=1)


def held(api: Api, expected: int) -> list[int]:
    """Return every number of replicas seen for a while, without repetitions."""
    seen = [expected]
    deadline = time.monotonic() + HELD_SECONDS
    while time.monotonic() < deadline:
        if (now := replicas(api)) != seen[-1]:
            seen.append(now)
        time.sleep(0.5)
    return seen


def condition(api: Api, name: str) -> Any:
    found = get(api, "scaledobject", "llava").get("status", {}).get("conditions", [])
    return next((one["status"] for one in found if one["type"] == name), None)


def test_it_follows_up_and_down_and_hands_back(world: World) -> None:
    api = world.api
    with operated(api, world.folder, "--keda", prometheus=world.prometheus.address) as operator:
        began = time.monotonic()
        followed(world, operator)
        risen = time.monotonic()
        # KEDA notes the trigger's health with conditions from before its first look; its next one,
        # 15 s later, says again that it is ready.
        eventually(
            lambda: condition(api, "Ready") == "True", seconds=90, showing=lambda: reported(api)
        )
        serving(api, "llava")
        load(api, world.gateways, requests_running=0.01, requests_accepted_total=0.01)
        eventually(
            lambda: replicas(api) == 1,
            seconds=FALL_SECONDS,
            pause_seconds=1,
            showing=lambda: reported(api),
        )
        fallen = time.monotonic()
        _LOG.info("1 -> 4 after %.0f s, 4 -> 1 after %.0f s", risen - began, fallen - risen)
        # The operator sees at its next tick what KEDA has moved.
        eventually(lambda: scaling(api)["history"][0]["toReplicas"] == 1)
        moves = scaling(api)["history"]
        assert max(move["toReplicas"] for move in moves) == 4
        assert {move["reason"].split()[0] for move in moves} == {"SetBy"}

        back = json.dumps({"spec": {"autoscaling": {"engine": "Builtin"}}})
        api.kubectl("patch", "mmm", "llava", "--type=merge", "-p", back)

        gone = ("get", "scaledobject,hpa", "-o", "name")
        eventually(lambda: not api.kubectl(*gone).strip(), seconds=60)
        eventually(
            lambda: active(api).get("status") == "True", seconds=60, showing=lambda: active(api)
        )
        assert replicas(api) == 1


def test_replicas_stay_where_no_server_answers(world: World) -> None:
    """The operator is killed and its series end: an empty answer is an error, and errors hold."""
    api = world.api
    with operated(api, world.folder, "--keda", prometheus=world.prometheus.address) as operator:
        followed(world, operator)
        operator.kill()
        query = "mm_autoscaling_desired_replicas"
        eventually(lambda: not world.prometheus.query(query), seconds=30)

        assert held(api, 4) == [4], reported(api)
        assert condition(api, "Fallback") == "True"
    with operated(api, world.folder, "--keda", prometheus=world.prometheus.address) as operator:
        world.scrape(world.gateways.port, operator.port)
        eventually(
            lambda: condition(api, "Fallback") == "False", seconds=90, showing=lambda: reported(api)
        )
        assert replicas(api) == 4


def test_a_second_owner_is_refused_by_both(world: World) -> None:
    """Someone's own HorizontalPodAutoscaler: the operator takes its ScaledObject away."""
    api = world.api
    with operated(api, world.folder, "--keda", prometheus=world.prometheus.address) as operator:
        followed(world, operator)
        api.kubectl("autoscale", "--name=rival", "--min=4", "--max=4", "multimodalmodel/llava")

        reason = "ReplicasContested"
        eventually(
            lambda: active(api).get("reason") == reason, seconds=60, showing=lambda: active(api)
        )
        names = ("get", "scaledobject,hpa", "-o", "name")
        rival = ["horizontalpodautoscaler.autoscaling/rival"]
        eventually(lambda: api.kubectl(*names).split() == rival, seconds=60)
        assert replicas(api) == 4


def test_the_definitions_of_make_test_are_these() -> None:
    """What `make test` checks our objects against is what this version of KEDA has."""
    folder = module_folder("keda", MODULE) / "config" / "crd" / "bases"

    assert {file.name: file.read_bytes() for file in FILES} == {
        file.name: (folder / file.name).read_bytes() for file in FILES
    }
    assert len(FILES) == 2
