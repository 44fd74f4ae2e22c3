"""On the entire development cluster: a replica of two pods, with tensor parallelism of two.

Real: LeaderWorkerSet, the operator, the gateway, vLLM on processors. There is one node, so both
pods are on it; each has an address and a process group of its own, and vLLM speaks over the pods'
network. To save 9 GB of disk the image has no packages of vLLM's: they are hard links of those of
`.venv-vllm` in the volume of the store. Run by `make groups-test`; elsewhere skipped unless
LeaderWorkerSet is compiled and `.venv-vllm` made.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mm_api.contract import STORE_MOUNT
from mm_devcluster.demo import installation, preparation
from mm_devcluster.images.catalogue import Stock, compose, vllm_files, vllm_version
from mm_devcluster.images.environment import VLLM_CPU, skeleton_entries
from mm_devcluster.images.layers import cached_layer, layer_key
from support.clusters import apply, kubectl
from support.eventually import eventually
from support.installed import Installed, Space, model_space
from support.leader_worker_set import running_leader_worker_set
from support.outside import kill_in_pod
from support.real_vllm import PROGRAM
from support.service_clients import answer_to, client_of
from support.tiny_llava import CHECKPOINT, samples

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3000)]

MODEL = "tiny"
STORE = "engines"
START_SECONDS = 900.0
GROUPS = "leaderworkersets.leaderworkerset.x-k8s.io"


def vllm_image(installed: Installed) -> str:
    """Load an image with vLLM's program, whose packages are in the store; return its name."""
    files = (*skeleton_entries(), *vllm_files())
    packages = {"PYTHONPATH": f"{STORE_MOUNT}/packages", "TORCHDYNAMO_DISABLE": "1"}
    stock = Stock("vllm-without-packages", VLLM_CPU, "vllm", packages)
    top = cached_layer(f"{stock.name}-{layer_key(map(repr, files))}", lambda: files)
    session = installed.session
    assert session.base is not None
    session.images[stock.name] = compose(stock, (session.base, top))
    preparation.load_image(session, stock, lambda _detail: None)
    return session.image_reference(stock.name)


def volume(installed: Installed, space: str, folder: Path) -> None:
    """Make a claim of a directory of this machine, which is the node's, too."""
    size = {"storage": "20Gi"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{space}-{STORE}"},
        "spec": {
            **common,
            "capacity": size,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(folder)},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": STORE, "namespace": space},
        "spec": {**common, "volumeName": f"{space}-{STORE}", "resources": {"requests": size}},
    }
    apply(installed.cluster, volume, claim)


@pytest.fixture(name="packages", scope="module")
def folder_of_packages() -> Iterator[Path]:
    if not PROGRAM.exists():
        pytest.skip("the real vLLM was not run: no .venv-vllm here, `make env-vllm` makes it")
    environment = PROGRAM.resolve().parents[1]
    site = next(environment.glob("lib/python3.*/site-packages"))
    with tempfile.TemporaryDirectory(dir=environment) as made:  # of the same disk
        folder = Path(made)
        folder.chmod(0o777)
        shutil.copytree(site, folder / "packages", copy_function=_linked)
        yield folder


def _linked(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


@pytest.fixture(name="space", scope="module")
def space_with_a_group(
    installed: Installed, packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Space]:
    cluster, ignore = installed.cluster, lambda _detail: None
    with running_leader_worker_set(cluster, tmp_path_factory.mktemp("lws")):
        enabled = {"leaderWorkerSet": {"enabled": True}}
        installation.install_operator(installed.session, ignore, enabled)
        try:
            with model_space(installed, "groups") as space:
                volume(installed, space.name, packages)
                space.upload(CHECKPOINT, MODEL)
                space.apply(document(space, vllm_image(installed)))
                space.wait_ready(MODEL, START_SECONDS)
                yield space
        finally:
            kubectl(cluster, "delete", "pv", f"groups-{STORE}", "--ignore-not-found")
            installation.install_operator(installed.session, ignore)


def document(space: Space, image: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "1Gi"}}
    return space.model(
        MODEL,
        MODEL,
        engine={
            "backend": "VLLM",
            "extraArgs": ["--enforce-eager"],
            "parallelism": {"tensor": 2, "nodes": 2},
        },
        build={"store": {"persistentVolumeClaim": {"claimName": STORE}}},
        runtime={"image": image, "vllmVersion": vllm_version(), "resources": resources},
    )


def pods(space: Space, component: str) -> list[dict[str, Any]]:
    return list(space.get("pods", "-l", f"app.kubernetes.io/component={component}")["items"])


def answers(space: Space) -> list[str]:
    with client_of(space, MODEL) as client:
        return [answer_to(client, MODEL, one.messages, stream=False) for one in samples()]


def test_both_pods_give_the_answers_of_one(space: Space) -> None:
    """Each computes half of every layer; the leader alone has the gateway, and the endpoint."""
    (leader,), (worker,) = pods(space, "server"), pods(space, "worker")
    named = [[one["name"] for one in pod["spec"]["containers"]] for pod in (leader, worker)]
    assert named == [["gateway"], ["server"]]
    endpoints = space.get("endpointslices", "-l", f"kubernetes.io/service-name={MODEL}")
    addresses = [one["addresses"] for item in endpoints["items"] for one in item["endpoints"]]
    assert addresses == [[leader["status"]["podIP"]]]
    assert [one.strip() for one in answers(space)] == [one.answer for one in samples()]
    status = space.read(MODEL)["status"]
    assert (status["replicas"], status["readyReplicas"]) == (1, 1)


def test_a_lost_worker_restarts_its_group(space: Space) -> None:
    before = {pod["metadata"]["uid"] for kind in ("server", "worker") for pod in pods(space, kind)}
    kill_in_pod(pods(space, "worker")[0], "vllm")

    def renewed() -> bool:
        found = [pod for kind in ("server", "worker") for pod in pods(space, kind)]
        ids = {pod["metadata"]["uid"] for pod in found}
        return len(ids) == 2 and not ids & before

    eventually(renewed, seconds=300)
    space.wait(MODEL, "Available", lambda found: not found.holds, 60)
    space.wait_ready(MODEL, START_SECONDS)
    assert [one.strip() for one in answers(space)] == [one.answer for one in samples()]


def test_nothing_is_left_of_it(space: Space) -> None:
    space.kubectl("delete", "mmm", MODEL)
    kinds = (GROUPS, "statefulsets", "pods", "services", "configmaps")
    left = {"kube-root-ca.crt"}

    def gone() -> bool:
        return {name for kind in kinds for name in space.names(kind)} <= left

    eventually(gone, seconds=180)
