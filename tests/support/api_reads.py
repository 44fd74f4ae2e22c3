"""What `kubectl get -o json` prints, read from the API server itself.

To start kubectl takes a tenth of a second of a core, and a test that waits queries several times a
second. What users do stays kubectl's: it applies, deletes, patches, and prints for people.
"""

import base64
import json
import ssl
import tempfile
import urllib.error
import urllib.request
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

import yaml

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
