"""`external.metrics.k8s.io`: replicas wanted by model, for HorizontalPodAutoscalers.

Answered from the status in the cache, so every replica of the operator answers the same, also while
none leads: the last recommendation stands. Only the API server is answered, which checked by RBAC
whether its caller may read the metric.
"""

import re
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from mm_api import labels
from mm_edge.listening import listening_sockets
from mm_operator.children.autoscaler import METRIC
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.scaling.front_proxy import FrontProxy

GROUP_VERSION = "external.metrics.k8s.io/v1beta1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_ROOT = f"/apis/{GROUP_VERSION}"
_SELECTOR = re.compile(rf"^{re.escape(labels.MODEL)}=(?P<model>[-a-z0-9]+)$")


def make_app(
    models: ModelCache,
    front_proxy: FrontProxy,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> web.Application:
    """Return the API as an application that answers the API server."""

    @web.middleware
    async def only_the_api_server(request: web.Request, handler: Handler) -> web.StreamResponse:
        transport = request.transport
        if transport is None or not front_proxy.admits(transport.get_extra_info("peercert")):
            return _failure(403, "Forbidden", "only the API server may call this")
        return await handler(request)

    async def resources(_: web.Request) -> web.Response:
        return web.json_response(
            {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": GROUP_VERSION,
                "resources": [
                    {
                        "name": METRIC,
                        "singularName": "",
                        "namespaced": True,
                        "kind": "ExternalMetricValueList",
                        "verbs": ["get"],
                    }
                ],
            }
        )

    async def values(request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["metric"]
        match = _SELECTOR.match(request.query.get("labelSelector", ""))
        if name != METRIC or match is None:
            return _not_found(f"only {METRIC} with the selector {labels.MODEL}=NAME is served")
        wanted = desired_replicas(models, Key(namespace, match["model"]))
        if wanted is None:
            return _not_found(f"there is no recommendation for {namespace}/{match['model']}")
        item = {
            "metricName": METRIC,
            "metricLabels": {labels.MODEL: match["model"]},
            "timestamp": clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": str(wanted),
        }
        return web.json_response(
            {
                "kind": "ExternalMetricValueList",
                "apiVersion": GROUP_VERSION,
                "metadata": {},
                "items": [item],
            }
        )

    app = web.Application(middlewares=[only_the_api_server])
    app.router.add_get(_ROOT, resources)
    app.router.add_get(f"{_ROOT}/namespaces/{{namespace}}/{{metric}}", values)
    return app


def desired_replicas(models: ModelCache, key: Key) -> int | None:
    """Return what the status recommends; None keeps an autoscaler from moving anything."""
    record = models.find(key)
    if record is None:
        return None
    wanted: Any = (record.status.read().get("scaling") or {}).get("desired")
    return wanted if isinstance(wanted, int) else None


async def serve_metrics_api(
    models: ModelCache,
    *,
    port: int,
    certificate: str,
    key: str,
    front_proxy: FrontProxy,
    address: str = "0.0.0.0",  # noqa: S104  # the API server comes from outside the pod
) -> tuple[web.AppRunner, int]:
    """Serve the API over TLS; return its runner (to clean up) and its port.

    Raises:
        OSError: the certificate's files cannot be read, or the port is taken.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    front_proxy.restrict(context)
    app = make_app(models, front_proxy)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    for listening in listening_sockets(address, port):
        await web.SockSite(runner, listening, ssl_context=context).start()
    return runner, runner.addresses[0][1]


def _not_found(message: str) -> web.Response:
    return _failure(404, "NotFound", message)


def _failure(code: int, reason: str, message: str) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return web.json_response(body, status=code)
