"""`mmctl status`, `doctor`, `init` and `support-bundle` on a real API server."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python as helm
import pytest
import yaml

from mm_ctl.cli import main
from mm_ctl.commands.support_bundle import hidden_text
from mm_devcluster.cluster import ClusterInfo
from support.chart import CHART, RELEASE
from support.clusters import apply, kubectl, namespace
from support.definition import install_definition
from support.golden import Golden
from support.gpu_nodes import H100, L4, node_object
from support.model_configs import folder_of
from support.model_documents import document

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SPACE = "mmctl-tests"
STATES: dict[str, dict[str, str]] = {
    "broken": {"Planned": "False InvalidSpec", "Degraded": "True InvalidSpec"},
    "building": {"Planned": "True PlanComplete", "EngineBuilt": "False Building"},
    "new": {},
    "ready": {"Planned": "True A", "EngineBuilt": "True A", "Ready": "True ReplicasAvailable"},
}
STATUS = {
    "readyOfWanted": "1/2",
    "url": "http://a.demo.svc/v1",
    "build": {"phase": "Building", "step": "convert", "progress": "3 of 5, 40 %"},
}
TOKEN = "hf_" + 20 * "a"
LOGS = ("Bearer a.b ok", "http://me:pw@host:80/a", "http://host:80/a@b", "https://s3/x?sig=abc&b=2")
LOGS += (f"token {TOKEN}.", "key AKIAABCDEFGHIJKLMNOP")


@pytest.fixture(scope="module")
def options(control_plane: ClusterInfo) -> Iterator[list[str]]:
    """Make a namespace of models, and nodes of two products; return mmctl's options."""
    install_definition(control_plane)
    small = node_object("small", L4, **{"nvidia.com/gpu.memory": "23034"})
    apply(control_plane, node_object("big", H100), small)
    with namespace(control_plane, SPACE, enforce="privileged"):
        for name, state in STATES.items():
            model = document(name=name)
            model["metadata"]["namespace"] = SPACE
            apply(control_plane, model)
            if state:
                written = {**STATUS, "conditions": [_condition(*one) for one in state.items()]}
                change = ("--type=merge", "-p", json.dumps({"status": written}))
                where = ("-n", SPACE, "patch", "mmm", name, "--subresource=status")
                kubectl(control_plane, *where, *change)
        yield ["--kubeconfig", str(control_plane.kubeconfig), "-n", SPACE]
    kubectl(control_plane, "delete", "node", "big", "small")


def _condition(kind: str, state: str) -> dict[str, Any]:
    status, reason = state.split()
    written = {"type": kind, "status": status, "reason": reason, "message": "said\nmore"}
    return {**written, "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_what_is_printed_of_a_cluster(
    control_plane: ClusterInfo,
    options: list[str],
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No pod runs on a control plane, and its nodes have labels alone."""
    metadata = {"name": "a", "namespace": SPACE}
    closed = {"kind": "NetworkPolicy", "spec": {"podSelector": {}, "policyTypes": ["Egress"]}}
    quota = {"kind": "ResourceQuota", "spec": {"hard": {"limits.cpu": "4"}}}
    for version, made in (("networking.k8s.io/v1", closed), ("v1", quota)):
        apply(control_plane, {**made, "apiVersion": version, "metadata": metadata})
    values = {"prometheus": {"addresses": ["http://prometheus.monitoring:9090"]}}
    init = ["init", "hf://a/b", "--facts", str(folder_of("qwen2-5-vl"))]
    kubeconfig = str(control_plane.kubeconfig)
    found = {}
    with helm.Config(namespace=SPACE, kubeconfig_path=kubeconfig) as config:
        config.install(CHART, RELEASE, values, timeout=120)
        try:
            for words in (
                ["status"],
                *(["status", one] for one in (*STATES, "gone")),
                ["doctor"],
                init,
            ):
                code = main([*words, *options])
                found[" ".join(words[:2])] = {"exit": code, "out": capsys.readouterr().out}
        finally:
            config.uninstall(RELEASE, timeout=120)
            kubectl(control_plane, "-n", SPACE, "delete", "quota", "--all")
    golden.check_yaml("cluster.yaml", found)


def test_bundles_hold_no_secrets(
    control_plane: ClusterInfo, options: list[str], tmp_path: Path
) -> None:
    container: dict[str, Any] = {
        "name": "c",
        "image": "x:1",
        "args": ["--api-key=hush", "--token", "hush"],
    }
    container["env"] = [{"name": "HF_TOKEN", "value": "hush"}, {"name": "URL", "value": TOKEN}]
    marks = {"app.kubernetes.io/managed-by": "multimodal-operator"}
    metadata = {"name": "server", "namespace": SPACE, "labels": marks}
    spec = {"containers": [container]}
    apply(control_plane, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    plan = {"serving.json": json.dumps({"encoders": {"key": "hush"}, "noise": "\n"})}
    named = {**metadata, "name": "plan"}
    apply(control_plane, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": plan})
    archive = tmp_path / "bundle.tar.gz"

    assert main(["support-bundle", "--file", str(archive), *options]) == 0
    with tarfile.open(archive) as tar:
        opened = {name: tar.extractfile(name) for name in tar.getnames()}
        texts = {name: file.read().decode() for name, file in opened.items() if file}
    (bundled,) = yaml.safe_load_all(texts["bundle/models/pods.yaml"])
    (inside,) = bundled["spec"]["containers"]

    assert inside["args"] == ["--api-key=(removed)", "--token", "(removed)"]
    assert {one["value"] for one in inside["env"]} == {"(removed)"}
    assert "3 of 5" in texts["bundle/models/multimodalmodels.yaml"]
    assert texts["bundle/unread.txt"] == ""
    assert [name for name, text in texts.items() if TOKEN in text or "hush" in text] == []


def test_tokens_in_logs_are_replaced(golden: Golden) -> None:
    golden.check_yaml("hidden.yaml", {text: hidden_text(text) for text in LOGS})
