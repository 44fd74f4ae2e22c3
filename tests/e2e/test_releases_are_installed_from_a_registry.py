"""`tools/release.py` pushes to a real registry; Helm installs from it with no value set.

The node pulls the operator's image from the registry, by the digest that the chart names.
"""

import json
import socket
import subprocess
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import helm_python as helm
import pytest

from mm_devcluster.binaries import ensure_binaries, is_built
from mm_devcluster.cluster import ClusterInfo
from mm_devcluster.layout import Layout
from support.chart import RELEASE
from support.clusters import kubectl, namespace, read
from support.eventually import eventually
from support.ports import free_ports
from support.scripts import load_tool
from support.tied import tied

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

NAMESPACE = "released"
CONFIG = """\
version: 0.1
storage: {filesystem: {rootdir: FOLDER}}
http: {addr: "0.0.0.0:PORT"}
"""


@pytest.fixture(scope="module")
def registry(node_cluster: ClusterInfo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a registry without TLS where the node reaches it; return its host, port and path."""
    folder = tmp_path_factory.mktemp("registry")
    (port,) = free_ports(1)
    config = folder / "config.yml"
    config.write_text(CONFIG.replace("FOLDER", str(folder / "data")).replace("PORT", str(port)))
    # The machine's end of the node's link is the address before the node's.
    host = f"{ip_address(urlsplit(node_cluster.server).hostname or '') - 1}:{port}"
    hosts = Layout(node_cluster.directory).registries / host / "hosts.toml"
    hosts.parent.mkdir(parents=True)
    hosts.write_text(f'server = "http://{host}"\n[host."http://{host}"]\n')
    command = tied([ensure_binaries(["registry"])["registry"], "serve", config])
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            # It says nothing until it listens.
            eventually(lambda: socket.create_connection((host.partition(":")[0], port), 1))
            yield f"{host}/team"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def released(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Release the operator's image and the chart, signed where cosign is compiled; return where."""
    out = tmp_path_factory.mktemp("release")
    options = ["--registry", registry, "--out", str(out), "--builder", "layers", "--push"]
    options += ["--images", "operator", "--plain-http", "--allow-changed"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COSIGN_PASSWORD", "of-a-test")
        if is_built("cosign"):
            subprocess.run([_cosign(), "generate-key-pair"], cwd=out, check=True, timeout=60)
            options += ["--sign", str(out / "cosign.key")]
        assert load_tool("release").main(options) == 0
    return next(out.glob("*/images")).parent


@pytest.fixture(scope="module")
def digest(released: Path) -> str:
    index = json.loads((released / "images" / "operator" / "index.json").read_text())
    return str(index["manifests"][0]["digest"])


def test_helm_installs_it_and_the_node_pulls_its_image(
    node_cluster: ClusterInfo, registry: str, digest: str
) -> None:
    chart, kubeconfig = f"oci://{registry}/charts/multimodal-operator", node_cluster.kubeconfig
    with (
        namespace(node_cluster, NAMESPACE),
        helm.Config(namespace=NAMESPACE, kubeconfig_path=str(kubeconfig)) as config,
    ):
        try:
            config.install(chart, RELEASE, {}, timeout=120, plain_http=True)
            states = eventually(
                lambda: _ready(node_cluster),
                seconds=180,
                showing=lambda: kubectl(node_cluster, "-n", NAMESPACE, "get", "events"),
            )
        finally:
            config.uninstall(RELEASE, ignore_not_found=True, timeout=120)

    assert {state["imageID"].rpartition("@")[2] for state in states} == {digest}


def _ready(cluster: ClusterInfo) -> list[dict[str, Any]]:
    """Return the states of both containers when they are ready, else nothing."""
    pods = read(cluster, "-n", NAMESPACE, "pods")["items"]
    states = [pod["status"]["containerStatuses"][0] for pod in pods]
    return states if [state["ready"] for state in states] == [True, True] else []


def test_signatures_are_verified(registry: str, digest: str, released: Path) -> None:
    """Those of the image, its bill of materials and its provenance."""
    if not is_built("cosign"):  # it takes 20 minutes
        pytest.skip("cosign is not compiled: mm-devcluster build cosign")
    key = str(released.parent / "cosign.pub")
    how = ["--key", key, "--insecure-ignore-tlog", "--allow-http-registry"]
    attested = [["verify-attestation", "--type", kind] for kind in ("cyclonedx", "slsaprovenance1")]
    for words in (["verify"], *attested):
        command = [_cosign(), *words, *how, f"{registry}/operator@{digest}"]
        subprocess.run(command, check=True, timeout=60)


def _cosign() -> str:
    return str(ensure_binaries(["cosign"])["cosign"])


def test_its_documents_name_what_it_holds(released: Path, registry: str, digest: str) -> None:
    """Checksums hold, and provenance and SBOM name the image by its digest."""
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=released, check=True)
    statement = json.loads((released / "provenance.intoto.json").read_text())
    bill = json.loads((released / "operator.cdx.json").read_text())
    digests = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    files = {path.name for path in released.iterdir() if path.is_file()}

    assert f"sha256:{digests[f'{registry}/operator']}" == digest
    assert bill["metadata"]["component"]["hashes"][0]["content"] == digest.partition(":")[2]
    assert {"kopf", "kubernetes", "python3.11"} <= {one["name"] for one in bill["components"]}
    signed = {"provenance.intoto.json", "SHA256SUMS", "SHA256SUMS.sigstore.json"}
    assert files - set(digests) <= signed
