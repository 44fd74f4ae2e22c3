"""What `make demo --ip-family IPv6` does: node, pods and Services have addresses of IPv6 alone."""

import os
from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import httpx
import pytest
import tritonclient.grpc

from mm_api.hosts import host_port
from mm_devcluster import cluster
from mm_devcluster.addresses import Family
from mm_devcluster.cluster import ClusterInfo, ClusterOptions
from mm_devcluster.demo import questions, settings
from mm_devcluster.demo.graph import run_stages
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.stages import stages_of
from support.clusters import kubectl, read
from support.eventually import eventually

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6 on this machine"),
]

NAME = f"ipv6-{os.getpid()}"
IN_DEMO = ("--namespace", settings.DEMO_NAMESPACE)
SECONDS = 30


@pytest.fixture(scope="module", name="served")
def _served() -> Iterator[ClusterInfo]:
    options = ClusterOptions(name=NAME, ip_family=Family.IPV6, owner_pid=os.getpid())
    try:
        there = cluster.up(options)
        answers: list[questions.Answer] = []
        session = Session(settings.Options(NAME, ip_family=Family.IPV6))
        failures = run_stages(stages_of(session, answers), lambda _: None)
        assert [str(failure.error) for failure in failures] == []
        assert answers
        assert all(answer.is_right for answer in answers)
        yield there
    finally:
        cluster.down(NAME)


def address_of(there: ClusterInfo, service: str) -> str:
    return str(read(there, "service", service, *IN_DEMO)["spec"]["clusterIP"])


def test_every_address_is_one_of_ipv6(served: ClusterInfo) -> None:
    """Of pods, Services and the node: nothing here could have come by IPv4."""
    pods = read(served, "pods", "--all-namespaces")["items"]
    services = read(served, "services", "--all-namespaces")["items"]
    found = [one["ip"] for pod in pods for one in pod["status"].get("podIPs", [])]
    found += [one for service in services for one in service["spec"]["clusterIPs"]]
    node = read(served, "node", "node1")["status"]["addresses"]
    found += [one["address"] for one in node if one["type"] == "InternalIP"]
    assert len(found) > len(services)
    assert [one for one in map(IPv6Address, found) if not one.is_private] == []


def test_a_model_answers_through_its_service(served: ClusterInfo) -> None:
    base = f"http://{host_port(address_of(served, settings.MODEL), 80)}/v1"
    body: dict[str, Any] = {
        "model": settings.MODEL,
        "messages": [{"role": "user", "content": "What is in the image?"}],
        "max_tokens": 4,
    }
    answered = httpx.post(f"{base}/chat/completions", json=body, timeout=SECONDS)
    assert answered.status_code == 200, answered.text
    assert answered.json()["choices"][0]["message"]["content"]

    name = f"http://{settings.MODEL}.{settings.DEMO_NAMESPACE}.svc/v1/models"
    code = f"import urllib.request as u; print(u.urlopen({name!r}, timeout=20).read().decode())"
    pod = f"deployment/{settings.MODEL}"
    python = "/opt/multimodal/venv/bin/python"
    said = kubectl(served, "exec", *IN_DEMO, pod, "-c", "gateway", "--", python, "-c", code)
    assert settings.MODEL in said


def test_triton_is_reached_over_both_protocols(served: ClusterInfo) -> None:
    """Its HTTP server listens on the pod's family only: `::` here."""
    patch = '{"spec": {"runtime": {"triton": {"expose": true}}}}'
    kubectl(served, "patch", "mmm", settings.MODEL, *IN_DEMO, "--type=merge", "-p", patch)
    name = f"{settings.MODEL}-triton"
    eventually(lambda: bool(read(served, "service", name, *IN_DEMO)), seconds=SECONDS)
    address = address_of(served, name)
    http = f"http://{host_port(address, 8000)}/v2/health/ready"

    def is_ready() -> bool:
        try:
            return httpx.get(http, timeout=SECONDS).status_code == 200
        except httpx.TransportError:
            return False

    eventually(is_ready, seconds=240)
    with tritonclient.grpc.InferenceServerClient(host_port(address, 8001)) as client:
        assert client.is_server_ready()
