"""The node runs restricted pods: names of Services, limits, exec, port-forward.

Claims and addresses of Services are what the tests of `tests/e2e` begin with.
"""

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from mm_devcluster.cluster import ClusterInfo, restart_part
from support.clusters import apply, kubectl, namespace, read
from support.eventually import eventually
from support.probe_pods import await_phase, build_probe_pod, load_probe, run_probe

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture(name="space", scope="module")
def probe_namespace(node_cluster: ClusterInfo) -> Iterator[str]:
    load_probe(node_cluster)
    with namespace(node_cluster, "node-runs-pods") as name:
        yield name


@pytest.fixture(name="service", scope="module")
def hello_service(node_cluster: ClusterInfo, space: str) -> str:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hello-service", "namespace": space},
        "spec": {"selector": {"app": "hello"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    apply(node_cluster, build_probe_pod("hello", space, "serve", "hello"), service)
    await_phase(node_cluster, "hello", space, "Running")
    made = read(node_cluster, "service", "hello-service", "-n", space)
    address = str(made["spec"]["clusterIP"])
    eventually(lambda: fetch(f"http://{address}/"))  # kube-proxy learns of it a moment later
    return address


def fetch(url: str) -> str:
    """Get a URL from this machine, past any proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def ended(pod: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return state


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("hello-service", marks=pytest.mark.slow),
        "hello-service.{space}.svc.cluster.local",
    ],
    ids=["short", "full"],
)
@pytest.mark.usefixtures("service")
def test_a_service_answers_a_pod_by_name(node_cluster: ClusterInfo, space: str, host: str) -> None:
    name = f"get-{len(host)}"
    run_probe(node_cluster, name, space, "get", f"http://{host.format(space=space)}/")
    assert kubectl(node_cluster, "logs", name, "-n", space) == "hello\n"


@pytest.mark.usefixtures("service")
def test_port_forward_reaches_a_service(node_cluster: ClusterInfo, space: str) -> None:
    command = [str(node_cluster.kubectl), f"--kubeconfig={node_cluster.kubeconfig}", "-n", space]
    with subprocess.Popen(
        [*command, "port-forward", "service/hello-service", ":80"],
        stdout=subprocess.PIPE,
        text=True,
    ) as forward:
        try:
            port = re.search(r"127\.0\.0\.1:(\d+)", forward.stdout.readline())
            assert fetch(f"http://127.0.0.1:{port[1]}/") == "hello\n"
        finally:
            forward.kill()


@pytest.mark.usefixtures("service")
def test_exec_passes_input_and_exit_code(node_cluster: ClusterInfo, space: str) -> None:
    run = ["exec", "-i", "hello", "-n", space, "--", "/probe"]
    assert kubectl(node_cluster, *run, "echo", stdin="text") == "text"
    refused = kubectl(node_cluster, *run, "say", "x", "7", check=False)
    assert "exit code 7" in refused


def test_a_pod_above_its_memory_limit_is_killed(node_cluster: ClusterInfo, space: str) -> None:
    """By SIGKILL, which nothing else here sends.

    Usually with reason OOMKilled. containerd reports the exit and the OOM event apart: where the
    exit comes first, the kubelet writes Error.
    """
    limit = {"limits": {"memory": "32Mi"}}
    pod = run_probe(node_cluster, "eater", space, "eat", "200", resources=limit)
    assert ended(pod)["exitCode"] == 137
    assert ended(pod)["reason"] in {"OOMKilled", "Error"}


def test_a_deleted_node_comes_back_when_its_kubelet_does(node_cluster: ClusterInfo) -> None:
    kubectl(node_cluster, "delete", "node", "node1")
    restart_part(node_cluster.name, "kubelet")

    def ready() -> bool:
        node = read(node_cluster, "node", "node1")
        conditions = {item["type"]: item["status"] for item in node["status"]["conditions"]}
        return conditions["Ready"] == "True" and not node["spec"].get("taints")

    eventually(ready, seconds=240)
