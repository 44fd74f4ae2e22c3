"""Clusters for tests: started once a session when first requested, stopped whatever happens.

``MM_TEST_KUBECONFIG`` names the kubeconfig of a cluster that runs already (``mm-devcluster
kubeconfig``); both fixtures use it then and leave it running. Tests must clean up after
themselves anyway: make a namespace of your own, and delete what has none.

To start kubectl takes a tenth of a second of a core, and a test that waits queries several times a
second. What users do stays kubectl's: it applies, deletes, patches, and prints for people.
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import yaml

from mm_api import labels
from mm_devcluster.binaries import ensure_binaries
from mm_devcluster.cluster import ClusterInfo, ClusterOptions, down, info, up
from mm_devcluster.paths import state_dir

REQUEST_SECONDS = 60.0
GROUPS = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""All kinds of the API server in two answers (aggregated discovery, Kubernetes 1.30)."""


@dataclass(frozen=True)
class Kind:
    """Where the API server keeps objects of one kind."""

    api_version: str
    plural: str
    name: str
    namespaced: bool

    def path(self, namespace: str, name: str) -> str:
        root = "apis" if "/" in self.api_version else "api"
        below = ["namespaces", namespace] if self.namespaced and namespace else []
        parts = [root, self.api_version, *below, self.plural, *filter(None, (name,))]
        return "/" + "/".join(quote(part, safe="/") for part in parts)


class ApiServer:
    """One API server, as its kubeconfig's user reaches it."""

    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(kubeconfig)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        decoded = base64.b64decode
        self._address = cluster["server"]
        self._trust = ssl.create_default_context(
            cadata=decoded(cluster["certificate-authority-data"]).decode()
        )
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(decoded(user["client-certificate-data"]) + decoded(user["client-key-data"]))
            pair.flush()
            self._trust.load_cert_chain(pair.name)
        self._kinds: dict[str, Kind] = {}

    def get(self, *arguments: str) -> dict[str, Any]:
        """Return what `kubectl get` with these arguments finds; {} when it does not exist."""
        requested = _parsed(arguments)
        found = [self._one(self._kind(word), requested) for word in requested.kinds.split(",")]
        if requested.name:
            return found[0]
        items = [item for answer in found for item in answer["items"]]
        return {"apiVersion": "v1", "kind": "List", "items": items}

    def _one(self, kind: Kind, requested: Namespace) -> dict[str, Any]:
        path = kind.path("" if requested.all else requested.namespace, requested.name)
        chosen = {"labelSelector": requested.selector, "fieldSelector": requested.fields}
        answer = self._answer(f"{path}?{urlencode({k: v for k, v in chosen.items() if v})}")
        for item in answer.get("items", ()):
            # A list says once what its items are.
            item |= {"apiVersion": kind.api_version, "kind": kind.name}
        return answer

    def _kind(self, word: str) -> Kind:
        word = word.lower()
        if word not in self._kinds:
            for root in ("/apis", "/api"):  # the core group last: its `events` are meant
                for group in reversed(self._answer(root, GROUPS)["items"]):
                    self._kinds |= _names(group)
        if word not in self._kinds:
            raise AssertionError(f"the API server has no {word!r}")
        return self._kinds[word]

    def _answer(self, path: str, accept: str = "application/json") -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 (https, of the kubeconfig)
            self._address + path, headers={"Accept": accept}
        )
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=REQUEST_SECONDS, context=self._trust
            ) as answer:
                document: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                if refusal.code == HTTPStatus.NOT_FOUND:
                    return {}
                raise AssertionError(f"GET {path}: {refusal.read().decode()}") from refusal
        except OSError as error:
            raise AssertionError(f"GET {path}: {error!r}") from error
        return document


@cache
def api_server(kubeconfig: str) -> ApiServer:
    """Return the API server of a kubeconfig's text: one that is started again has another text."""
    return ApiServer(kubeconfig)


def _parsed(arguments: tuple[str, ...]) -> Namespace:
    parser = ArgumentParser(allow_abbrev=False)
    parser.add_argument("kinds")
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("-n", "--namespace", default="default")
    parser.add_argument("-A", "--all-namespaces", action="store_true", dest="all")
    parser.add_argument("-l", "--selector", default="")
    parser.add_argument("--field-selector", default="", dest="fields")
    return parser.parse_args(arguments)


def _names(group: dict[str, Any]) -> dict[str, Kind]:
    """Return every name of every kind of an API group; the version that it prefers counts."""
    named: dict[str, Kind] = {}
    for version in reversed(group["versions"]):
        parts = (group["metadata"].get("name"), version["version"])
        for one in version.get("resources", ()):  # none while its server is away
            kind = Kind(
                "/".join(filter(None, parts)),
                one["resource"],
                one["responseKind"]["kind"],
                one["scope"] == "Namespaced",
            )
            words = (kind.plural, one.get("singularResource"), *one.get("shortNames", ()))
            named |= {word: kind for word in words if word}
            named[".".join(filter(None, (kind.plural, parts[0])))] = kind
    return named


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
