"""`mmctl status`, `doctor`, `init`, `logs`, `ui` and `support-bundle` on a real API server."""

import asyncio
import io
import json
import os
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import aiohttp
import helm_python as helm
import pytest
import yaml
from aiohttp import web

from mm_api import labels
from mm_ctl.cli import main
from mm_ctl.commands.support_bundle import _logs, hidden_text
from mm_ctl.commands.ui import HEADERS, MOST_BYTES
from mm_devcluster.cluster import ClusterInfo
from mm_operator.errors import ClusterError
from support.answering_api import answered_by
from support.browser import tab_of
from support.cases import cases
from support.chart import CHART, RELEASE
from support.clusters import apply, kubectl, kubectl_json, namespace
from support.definition import install_definition
from support.golden import Golden
from support.gpu_nodes import H100, L4, node_object
from support.images import data_url, encode, plain_image
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
TIME, GIB = "2026-01-01T00:00:00Z", 1 << 30
HOSTILE = "<img src=x onerror=document.title=1>"
PARTS = ("weights", "visionEngine", "visionActivation", "promptTable", "cudaPool", "kvCache")
GPU = {f"{name}Bytes": GIB for name in (*PARTS, "context", "other")}
GPU |= {"rank": 0, "totalBytes": 8 * GIB, "gpuMemoryBytes": 10 * GIB}
STATUS = {
    "readyOfWanted": "1/2",
    "url": "http://a.demo.svc/v1",
    "build": {"phase": "Building", "step": "convert", "progress": "3 of 5, 40 %"},
    "plan": {"gpuMemory": [GPU]},
    "scaling": {
        "history": [{"time": TIME, "fromReplicas": 1, "toReplicas": 2, "reason": HOSTILE}],
    },
}
TOKEN = "hf_" + 20 * "a"
LOGS = ("Bearer a.b ok", "http://me:pw@host:80/a", "http://host:80/a@b", "https://s3/x?sig=abc&b=2")
LOGS += (f"token {TOKEN}.", "key AKIAABCDEFGHIJKLMNOP", "authorization: bearer a", "Basic use")
LOGS += ("Authorization: Basic bWU6cHc=", "https://s3/x?X-Amz-Signature=ab&max_tokens=2&token=c")


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
    return {**written, "observedGeneration": 1, "lastTransitionTime": TIME}


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


async def test_a_node_that_is_gone_costs_the_logs_of_its_pods() -> None:
    """Not those of all pods after them."""

    class Nodes:
        async def log(self, _namespace: str, _pod: str, container: str, _lines: int) -> str:
            if container == "lost":
                raise ClusterError(502, "Pod", "p", "dial tcp: no route to host")
            return "a line"

    containers = [{"name": "lost"}, {"name": "there"}]
    pod = {"metadata": {"namespace": "n", "name": "p"}, "spec": {"containers": containers}}
    there: Any = SimpleNamespace(client=Nodes())
    lost, found = [one async for one in _logs(there, pod)]
    assert lost[0] == "n/p/lost.log"
    assert "no route to host" in lost[1]
    assert found == ("n/p/there.log", "a line")


KUBECTL = """#!{python}
import sys, time
print({line!r} or " ".join(sys.argv[1:]), flush=True)
time.sleep({seconds})
"""


def program(folder: Path, line: str = "", seconds: int = 0) -> None:
    """Write a kubectl that prints a line, or what it was given."""
    made = folder / "kubectl"
    made.write_text(KUBECTL.format(python=sys.executable, line=line, seconds=seconds))
    made.chmod(0o755)


@cases(
    "words expected",
    {
        "inspection": (
            ["broken"],
            f"--selector={labels.MODEL}=broken,{labels.APP_COMPONENT}=inspect ",
        ),
        "build": (["building"], f"{labels.APP_COMPONENT}=build "),
        "server": (
            ["ready", "--tail", "5"],
            "server --max-log-requests=50 --prefix --tail=5 --all-",
        ),
        "given": (["ready", "--component", "encoder", "-f", "-c", "x"], "--container=x --follow"),
    },
)
def test_logs_are_of_the_stage(  # noqa: PLR0917  # pytest passes by name
    words: list[str],
    expected: str,
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    program(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main(["logs", *words, *options]) == 0
    assert expected in capfd.readouterr().out


@asynccontextmanager
async def page(options: list[str], path: Path) -> AsyncIterator[str]:
    """Run `mmctl ui` with programs of a folder before others, and yield its address."""
    words = [str(Path(sys.executable).with_name("mmctl")), "ui", "--no-browser", *options]
    variables = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    shown = await asyncio.create_subprocess_exec(*words, stdout=PIPE, env=variables)
    try:
        assert shown.stdout
        yield (await asyncio.wait_for(shown.stdout.readline(), 60)).decode().strip()
    finally:
        shown.terminate()
        await shown.wait()


async def test_models_are_shown_on_a_page(
    control_plane: ClusterInfo, options: list[str], tmp_path: Path
) -> None:
    """By keyboard alone: a model, its memory, Events, and a question about an image."""
    received: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        received.append(await request.json())
        return web.json_response({"choices": [{"message": {"content": HOSTILE}}]})

    model = kubectl_json(control_plane, "-n", SPACE, "get", "mmm", "ready")
    of = {"kind": "MultimodalModel", "namespace": SPACE, **model["metadata"]}
    of = {key: of[key] for key in ("kind", "namespace", "name", "uid")}
    said = {"reason": "Built", "type": "Normal", "message": HOSTILE, "lastTimestamp": TIME}
    metadata = {"name": "one", "namespace": SPACE}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": of}
    apply(control_plane, event | said)
    image = tmp_path / "image.png"
    image.write_bytes(encode(plain_image()))
    async with answered_by(answer, "/v1/chat/completions") as server:
        program(tmp_path, f"Forwarding from {server.removeprefix('http://')} -> 8080", 600)
        async with page(options, tmp_path) as address, tab_of(address, tmp_path / "browser") as tab:
            await tab.wait("document.querySelectorAll('tbody a').length == 4")
            assert await tab.eval("location.hash") == "#/"
            await tab.looks_well()
            while await tab.eval("document.activeElement.textContent") != f"{SPACE}/ready":
                await tab.press("Tab", 9)
            await tab.press("Enter", 13, "\r")
            await tab.wait("document.querySelectorAll('#live h2').length == 6")
            await tab.looks_well()
            shown = await tab.eval("document.body.innerText")
            bar = await tab.eval(
                "[...document.querySelector('.bar').children].map(one => one.offsetWidth)"
            )
            while await tab.eval("document.activeElement.id") != "text":
                await tab.press("Tab", 9)
            await tab.send("Input.insertText", text="What is it?")
            await tab.choose("#image", image)
            await tab.press("Tab", 9)
            await tab.press("Tab", 9)
            await tab.press("Enter", 13, "\r")
            await tab.wait("document.getElementById('answer').textContent.includes('img')")

            for text in (HOSTILE, "server, GPU 0: 8.0 GiB of 10.0 GiB, 2.0 GiB free", "1 → 2"):
                assert text in shown
            assert (len(bar), max(bar) - min(bar) <= 1) == (8, True)
            assert await tab.eval("document.querySelectorAll('img').length") == 0
            assert (await tab.eval("document.title"), tab.failures) == (f"{SPACE}/ready", [])
    (part, text) = received[0]["messages"][0]["content"]
    assert part["image_url"]["url"] == data_url(image.read_bytes())
    assert text["text"] == "What is it?"


async def test_what_the_page_refuses(options: list[str], tmp_path: Path) -> None:
    path = f"/{SPACE}/ready/answer"
    sent: dict[str, tuple[str, str, dict[str, Any], int]] = {
        "no-token": ("GET", "", {"headers": {"Authorization": "Bearer x"}}, 401),
        "another-host": ("GET", "", {"headers": {"Host": "evil.example:80"}}, 403),
        "no-model": ("GET", "/a/b", {}, 404),
        "a-change": ("PATCH", f"/{SPACE}/ready", {}, 405),
        "a-file": ("POST", path, {"json": {"text": "x", "image": "/etc/passwd"}}, 400),
        "no-text": ("POST", path, {"data": "[]"}, 400),
        "too-large": ("POST", path, {"data": io.BytesIO(bytes(MOST_BYTES + 1))}, 413),
    }
    async with page(options, tmp_path) as printed:
        address, _, token = printed.partition("#")
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(f"{address}api/", headers=headers) as session:
            for name, (method, end, body, status) in sent.items():
                async with session.request(method, f"models{end}", **body) as response:
                    assert (name, response.status) == (name, status)
                    assert HEADERS.items() <= dict(response.headers).items()
                    assert set(await response.json()) == {"error"}
