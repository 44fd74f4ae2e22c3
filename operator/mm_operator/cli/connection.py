"""The options by which commands find a cluster, as kubectl has them."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import list_kube_config_contexts
from kubernetes.aio.config.config_exception import ConfigException

from mm_operator.cluster.client import Client, connect

REQUEST_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster and the namespace to work in."""

    api: ApiClient
    client: Client
    namespace: str


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add --namespace, --kubeconfig and --context."""
    parser.add_argument("-n", "--namespace", help="default: the context's, else default")
    parser.add_argument("--kubeconfig", help="path; default: KUBECONFIG, else ~/.kube/config")
    parser.add_argument("--context", help="default: the kubeconfig's current context")


@asynccontextmanager
async def connection(options: argparse.Namespace) -> AsyncIterator[Connection]:
    """Yield a connection; raises ClusterError when there is no usable configuration."""
    api = await connect(options.kubeconfig, options.context)
    client = Client(api, timeout_seconds=REQUEST_SECONDS)
    try:
        yield Connection(api, client, options.namespace or _default_namespace(options))
    finally:
        await client.close()


def _default_namespace(options: argparse.Namespace) -> str:
    try:
        contexts, active = list_kube_config_contexts(config_file=options.kubeconfig)  # type: ignore[no-untyped-call]  # the library's
    except ConfigException:  # in a pod: there is no kubeconfig
        return "default"
    if options.context:
        active = next((one for one in contexts if one["name"] == options.context), active)
    return str((active or {}).get("context", {}).get("namespace") or "default")
