"""Clusters for tests: started once a session when first requested, stopped whatever happens.

``MM_TEST_KUBECONFIG`` names the kubeconfig of a cluster that runs already (``mm-devcluster
kubeconfig``); both fixtures use it then and leave it running. Tests must clean up after
themselves anyway: make a namespace of your own, and delete what has none.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mm_api import labels
from mm_devcluster.binaries import ensure_binaries
from mm_devcluster.cluster import ClusterInfo, ClusterOptions, down, info, up
from mm_devcluster.paths import state_dir
from support.api_reads import api_server

START_TIMEOUT = 240.0  # seconds; measured 5 (control plane) and 7 (node) idle, 23 at load 20
KUBECTL_TIMEOUT = 180.0  # most take 0.1; a namespace goes in 5 to 50


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ClusterInfo]:
    """API server and controllers without a node: pods stay Pending, Jobs never complete."""
    with given_or_own(f"tests-cp-{os.getpid()}", control_plane_only=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def node_cluster() -> Iterator[ClusterInfo]:
    """An entire cluster: pods run, Services and names resolve, claims get volumes."""
    with given_or_own(f"tests-{os.getpid()}", control_plane_only=False) as cluster:
        yield cluster


@contextmanager
def running_cluster(options: ClusterOptions) -> Iterator[ClusterInfo]:
    try:
        yield up(options)
    finally:
        down(options.name)


def kubectl(
    cluster: ClusterInfo, *arguments: str, stdin: str | None = None, check: bool = True
) -> str:
    """Run kubectl as the cluster's admin; return what it prints, unchecked its error output too."""
    done = subprocess.run(
        [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=KUBECTL_TIMEOUT,
        check=False,
    )
    if done.returncode and check:
        raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout if done.returncode == 0 else done.stderr


def kubectl_json(cluster: ClusterInfo, *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(kubectl(cluster, *arguments, "-o", "json"))
    return document


def read(cluster: ClusterInfo, *arguments: str) -> dict[str, Any]:
    config = cluster.kubeconfig.read_text(encoding="utf-8")
    if "client-certificate-data" in config:
        return api_server(config).get(*arguments)
    text = kubectl(cluster, "get", *arguments, "--ignore-not-found", "-o", "json")
    document: dict[str, Any] = json.loads(text) if text.strip() else {}
    return document


def apply(cluster: ClusterInfo, *manifests: dict[str, Any]) -> None:
    items = {"kind": "List", "apiVersion": "v1", "items": list(manifests)}
    kubectl(cluster, "apply", "-f", "-", stdin=json.dumps(items))


@contextmanager
def namespace(cluster: ClusterInfo, name: str, *, enforce: str = "restricted") -> Iterator[str]:
    """Make a namespace that opted in to models, under a Pod Security level; it goes at the end.

    One of that name that is still there, from an earlier test, is waited out first.
    """
    removal = ["delete", "namespace", name, "--ignore-not-found"]
    marks = {"pod-security.kubernetes.io/enforce": enforce, labels.ENABLED: "true"}
    document = json.dumps(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": marks}}
    )
    creation = ["create", "-f", "-"]
    made = kubectl(cluster, *creation, stdin=document, check=False)
    if "AlreadyExists" in made:
        kubectl(cluster, *removal, "--wait=true", "--timeout=170s")
        kubectl(cluster, *creation, stdin=document)
    elif "created" not in made:
        raise AssertionError(f"namespace {name}: {made}")
    try:
        yield name
    finally:
        # Not waited for: the namespace controller takes five seconds and more.
        kubectl(cluster, *removal, "--wait=false")


@contextmanager
def given_or_own(name: str, *, control_plane_only: bool) -> Iterator[ClusterInfo]:
    """Give the cluster that the environment names, or start one that ends with this process."""
    given = os.environ.get("MM_TEST_KUBECONFIG")
    if given:
        yield _existing(Path(given).absolute())
        return
    # The owner's end stops the cluster even when pytest is killed.
    options = ClusterOptions(
        name=name,
        control_plane_only=control_plane_only,
        owner_pid=os.getpid(),
        install_packages=True,
        timeout=START_TIMEOUT,
    )
    with running_cluster(options) as cluster:
        yield cluster


def _existing(kubeconfig: Path) -> ClusterInfo:
    if kubeconfig.is_relative_to(state_dir() / "clusters"):
        return info(kubeconfig.parent.name)
    program = ensure_binaries(["kubectl"])["kubectl"]
    unknown = ClusterInfo("", kubeconfig, program, "", kubeconfig.parent, control_plane_only=False)
    view = kubectl_json(unknown, "config", "view", "--minify")
    return replace(unknown, server=view["clusters"][0]["cluster"]["server"])
