"""README and pages for users are typed on a cluster: release, Helm, models, debugging, removal.

`make release` pushes to a real registry, Helm installs from it with no value set, and the node
pulls the images by the digests that the chart names.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mm_api.labels import APP_MANAGED_BY, MANAGED_BY_VALUE
from mm_devcluster.binaries import ensure_binaries, is_built
from mm_devcluster.cluster import ClusterInfo
from mm_devcluster.layout import Layout
from support.certificates import signed_by_an_authority
from support.clusters import kubectl, read
from support.eventually import eventually
from support.ports import free_ports
from support.scripts import ROOT, load_tool
from support.tied import tied
from support.typed_pages import Person

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(2400)]

CONFIG = """\
version: 0.1
storage: {filesystem: {rootdir: FOLDER}}
http: {addr: "0.0.0.0:PORT", tls: {certificate: CERTIFICATE, key: KEY}}
"""
HELM = f'#!/bin/sh\nexec {sys.executable} {ROOT / "tests/support/helm_program.py"} "$@"\n'
IMAGE = "examples/tiny-llava/images/red-square.png"


@pytest.fixture(scope="module", name="folder")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("release")


@pytest.fixture(scope="module", name="registry")
def registry_with_tls(node_cluster: ClusterInfo, folder: Path) -> Iterator[str]:
    """Serve a registry where the node reaches it; return its host, port and path."""
    (port,) = free_ports(1)
    # The machine's end of the node's link is the address before the node's.
    address = ip_address(urlsplit(node_cluster.server).hostname or "") - 1
    authority, pair = signed_by_an_authority(folder, "registry", f"IP:{address}")
    config, host = folder / "config.yml", f"{address}:{port}"
    text = CONFIG.replace("FOLDER", str(folder / "data")).replace("PORT", str(port))
    config.write_text(text.replace("CERTIFICATE", str(pair[0])).replace("KEY", str(pair[1])))
    hosts = Layout(node_cluster.directory).registries / host / "hosts.toml"
    hosts.parent.mkdir(parents=True)
    hosts.write_text(f'server = "https://{host}"\n[host."https://{host}"]\nca = "{authority}"\n')
    command = tied([ensure_binaries(["registry"])["registry"], "serve", config])
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    def listens() -> bool:
        with socket.create_connection((str(address), port), 1):
            return True

    with subprocess.Popen(command, **silent) as process:
        try:
            eventually(listens)
            yield f"{host}/team"
        finally:
            process.terminate()


@pytest.fixture(scope="module", name="reader")
def who_installed(node_cluster: ClusterInfo, registry: str, folder: Path) -> Person:
    """Return who has typed what README says of an installation, signed where cosign is compiled."""
    programs, home = folder / "bin", folder / "checkout"
    for path in (programs, home):
        path.mkdir()
    (programs / "helm").write_text(HELM)
    (programs / "helm").chmod(0o755)
    path = (programs, node_cluster.kubectl.parent, Path(sys.executable).parent, os.environ["PATH"])
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(map(str, path)),
        "KUBECONFIG": str(node_cluster.kubeconfig),
        "SSL_CERT_FILE": str(folder / "registry-authority.crt"),
        "DIST": str(folder / "dist"),
        "ALLOW_CHANGED": "1",
        "COSIGN_PASSWORD": "of-a-test",
    }
    if is_built("cosign"):
        command = [_cosign(), "generate-key-pair"]
        subprocess.run(command, cwd=folder, env=environment, check=True, timeout=60)
        environment["KEY"] = str(folder / "cosign.key")
    version = load_tool("release").version()
    person = Person(home, environment, {"HOST/PATH": registry, "TAG": version})
    person.read("README.md", "Install")
    return person


@pytest.fixture(name="released")
def what_was_released(reader: Person, folder: Path) -> Path:
    assert reader.typed
    return next((folder / "dist").glob("*/images")).parent


@pytest.fixture(name="digest")
def digest_of_the_operator(released: Path) -> str:
    index = json.loads((released / "images" / "operator" / "index.json").read_text())
    return str(index["manifests"][0]["digest"])


def test_commands_of_the_pages_work(node_cluster: ClusterInfo, reader: Person, digest: str) -> None:
    served = {"qwen": "tiny-llava", "photo.jpg": IMAGE}
    named = {"NAME": "tiny-llava", "NAMESPACE": "demo"}
    for section in ("1", "2", "3", "4", "5", "6"):
        reader.read("docs/start/cluster.md", section)
    pods = read(node_cluster, "-n", "multimodal-system", "pods")["items"]
    reader.read("docs/start/cluster.md", "7", served)
    reader.read("README.md", "One question", served)
    reader.read("docs/tasks/debug.md", chosen=named)
    reader.read("docs/tasks/uninstall.md", chosen=named)

    states = [pod["status"]["containerStatuses"][0] for pod in pods]
    assert [state["imageID"].rpartition("@")[2] for state in states] == [digest, digest]
    pods_left = ("get", "pods", "-A", "-o", "name", "-l", f"{APP_MANAGED_BY}={MANAGED_BY_VALUE}")
    eventually(lambda: kubectl(node_cluster, *pods_left) == "")


def test_signatures_are_verified(registry: str, digest: str, released: Path) -> None:
    """Those of the image, its bill of materials and its provenance."""
    if not is_built("cosign"):  # it takes 20 minutes
        pytest.skip("cosign is not compiled: mm-devcluster build cosign")
    folder = released.parent.parent
    how = ["--key", str(folder / "cosign.pub"), "--insecure-ignore-tlog"]
    trust = {**os.environ, "SSL_CERT_FILE": str(folder / "registry-authority.crt")}
    attested = [["verify-attestation", "--type", kind] for kind in ("cyclonedx", "slsaprovenance1")]
    for words in (["verify"], *attested):
        command = [_cosign(), *words, *how, f"{registry}/operator@{digest}"]
        subprocess.run(command, env=trust, check=True, timeout=60)


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
