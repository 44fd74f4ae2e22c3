"""Every kopf decorator, and nothing else: an event changes a cache, the cache wakes the reconcile.

Only `on.event`: kopf's other handlers write annotations and finalizers into the object. Children
are watched by `mm_operator.cluster.reflector`, because kopf never reports an object that was
deleted while its watch was down.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import kopf
from kubernetes.aio.client import ApiClient

from mm_api import labels
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache


def make_registry(models: ModelCache, api: ApiClient) -> kopf.OperatorRegistry:
    """Return kopf's registry with the handlers of one operator."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await connection_of(api)

    @kopf.on.event(labels.GROUP, labels.VERSION, labels.PLURAL, registry=registry)
    async def model_changed(event: Any, **_: Any) -> None:
        item = event["object"]
        metadata = item["metadata"]
        if event["type"] == "DELETED":
            models.remove(Key(metadata["namespace"], metadata["name"]), metadata["uid"])
        else:
            models.put(item)

    return registry


async def watch_models(models: ModelCache, api: ApiClient, namespaces: Sequence[str]) -> None:
    """Run kopf until cancelled; no namespaces mean all of them."""
    tasks = await kopf.spawn_tasks(
        registry=make_registry(models, api),
        settings=make_kopf_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
    )
    others = asyncio.all_tasks() - set(tasks)
    await kopf.run_tasks(tasks, ignored=others)


def make_kopf_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: no events, no peering, no watching of namespaces and CRDs."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True  # the verbs for namespaces and CRDs are not requested
    settings.watching.chunk_size = 100
    settings.watching.server_timeout = 600  # an integer: the API server parses it as one
    settings.networking.request_timeout = 30.0
    settings.queueing.idle_timeout = 1.0  # a task per object: 1,000 of them go sooner
    settings.queueing.exit_timeout = 0.5
    return settings


async def connection_of(api: ApiClient) -> kopf.ConnectionInfo:
    """Return kopf's credentials: the same that our own client uses at this moment.

    Called again at each login, because the kubelet renews a ServiceAccount's token.
    """
    headers: dict[str, str] = {}
    await api.update_params_for_auth(headers, [], ["BearerToken"], "", "", None)
    bearer = next((text for name, text in headers.items() if name.lower() == "authorization"), "")
    configuration = api.configuration
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        # The library writes the scheme of a ServiceAccount in lower case, of a kubeconfig not.
        token=bearer.partition(" ")[2] or None,
    )
