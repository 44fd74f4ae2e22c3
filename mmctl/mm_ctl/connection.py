"""The options by which commands find a cluster, as kubectl has them."""

import argparse
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes.aio.config import list_kube_config_contexts
from kubernetes.aio.config.config_exception import ConfigException
from yaml import YAMLError

from mm_ctl.documents import UsageError
from mm_operator.cluster.client import Client, connect, minor_version
from mm_operator.cluster.resources import MODEL, Resource
from mm_operator.errors import ClusterError

REQUEST_SECONDS = 30.0
_ADVICE = {
    0: "kubectl cluster-info says whether it answers",
    401: "log in to the cluster again",
    404: "mmctl doctor says what is not installed",
}
_DAMAGED = (AttributeError, KeyError, OSError, TypeError, YAMLError)
"""What the library raises where a part of a kubeconfig is missing, or of another type."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster and the namespace to work in."""

    client: Client
    namespace: str
    minor_version: Callable[[], Awaitable[int]]
    """That of Kubernetes 1; 0: the server does not say."""

    async def list(
        self, kind: Resource, namespace: str | None = None, selector: str = ""
    ) -> list[dict[str, Any]]:
        """Return objects of a namespace; None: of all, or of the cluster."""
        pages = self.client.list(kind, namespace, selector=selector)
        return [item async for page, _ in pages for item in page]


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add --namespace, --kubeconfig and --context."""
    parser.add_argument("-n", "--namespace", help="default: the context's, else default")
    parser.add_argument("--kubeconfig", help="path; default: KUBECONFIG, else ~/.kube/config")
    parser.add_argument("--context", help="default: the kubeconfig's current context")


def add_model_option(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the name of a model, and those of a connection."""
    number = "?" if optional else None
    name = parser.add_argument("name", nargs=number, help="name of the MultimodalModel")
    name.completer = _names  # type: ignore[attr-defined]  # argcomplete's
    add_connection_options(parser)


def _names(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    command = ["kubectl", "get", "multimodalmodels", "-o", "name", "--request-timeout=2s"]
    done = subprocess.run(
        [*command, *kubectl_options(parsed_args)], capture_output=True, text=True, check=False
    )
    return [line.partition("/")[2] for line in done.stdout.splitlines()]


def kubectl_options(options: argparse.Namespace) -> list[str]:
    """Return those that were given, for kubectl."""
    names = ("namespace", "kubeconfig", "context")
    return [f"--{name}={given}" for name in names if (given := getattr(options, name))]


@asynccontextmanager
async def connection(options: argparse.Namespace) -> AsyncIterator[Connection]:
    """Yield a connection; UsageError: no kubeconfig or context, or a damaged one."""
    try:
        api = await connect(options.kubeconfig, options.context)
    except (ClusterError, *_DAMAGED) as error:
        raise UsageError(_unusable(options, error)) from error
    client = Client(api, timeout_seconds=REQUEST_SECONDS)
    try:
        where = options.namespace or _default_namespace(options)
        yield Connection(client, where, partial(minor_version, api))
    except ClusterError as error:
        if error.status not in _ADVICE:
            raise
        said = f"{error.message} ({api.configuration.host}): {_ADVICE[error.status]}"
        raise replace(error, message=said) from error
    finally:
        await client.close()


def _unusable(options: argparse.Namespace, error: Exception) -> str:
    file = options.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    said = error.message if isinstance(error, ClusterError) else "a part of it is missing"
    if not any(Path(one).expanduser().exists() for one in file.split(os.pathsep)):
        said = "it does not exist"
    advice = "choose with --kubeconfig and --context, or set KUBECONFIG"
    return f"kubeconfig {file} cannot be used: {said}; {advice}"


async def read_model(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the model that the command names; None, after a message, when there is none."""
    async with connection(options) as target:
        model = await target.client.get(MODEL, target.namespace, options.name)
        if model is None:
            missing(target, options.name)
    return model


def missing(there: Connection, name: str) -> int:
    """Say that there is no such model; return the exit code."""
    sys.stderr.write(
        f"there is no model {there.namespace}/{name}: mmctl status -A lists them, and -n chooses "
        "another namespace\n"
    )
    return 1


def _default_namespace(options: argparse.Namespace) -> str:
    try:
        contexts, active = list_kube_config_contexts(config_file=options.kubeconfig)  # type: ignore[no-untyped-call]  # the library's
    except ConfigException:  # in a pod: there is no kubeconfig
        return "default"
    if options.context:
        active = next((one for one in contexts if one["name"] == options.context), active)
    return str((active or {}).get("context", {}).get("namespace") or "default")
