"""The one place that sends requests: time-outs, counting, errors as `ClusterError`.

Objects travel as plain dictionaries. The typed models of the client library would double memory and
time for objects that are mostly passed on unread.
"""

import asyncio
import contextlib
import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
import orjson
from aiohttp.connector import AddrInfoType
from kubernetes.aio.client import ApiClient, ApiException, Configuration, VersionApi
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException

from mm_operator.cluster.resources import LEASE, POD, Resource
from mm_operator.errors import ClusterError

_END_SECONDS = 1.0
"""For the last messages of TLS with a server that does not answer them."""


class RestClient(RESTClientObject):
    """Closes with the connections of cancelled requests too.

    aiohttp waits for connections of its pool and of requests that run. One whose request was
    cancelled ends its TLS afterwards: a loop that is closed before leaves the socket open.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self._sockets: WeakSet[socket.socket] = WeakSet()

    async def close(self) -> None:
        """Close every connection, and wait until the sockets are closed, at most a second."""
        await super().close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                # A transport has no public way to wait for its end.
                while any(one.fileno() != -1 for one in self._sockets):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=self.maxsize, ssl=self.ssl_context, socket_factory=self._socket
        )

    def _socket(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made


_LOG = logging.getLogger(__name__)
_VERSION_SECONDS = 10.0


async def minor_version(api: ApiClient) -> int:
    """Return the minor version of the API server; 0 when it does not say, which means an old one.

    A server that cannot be reached now is no reason to end: everything else waits for it too.
    """
    try:
        code = await VersionApi(api).get_code(_request_timeout=_VERSION_SECONDS)
    except (ApiException, aiohttp.ClientError, OSError, ValueError) as error:
        _LOG.warning("the version of the API server is not known (%s)", type(error).__name__)
        return 0
    digits = re.match(r"\d+", str(code.minor))
    return int(digits[0]) if digits else 0


APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"
_METADATA = f"{JSON};g=meta.k8s.io;v=v1"
"""With `as=...`: the API server leaves spec and status out."""

_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
_WRITES = frozenset({"create", "update", "patch", "delete"})
_PAGE = 100
"""Objects of a list that come together: ConfigMaps of 12 kB take 20 ms to parse and to keep, while
nothing else runs."""

_REQUESTS = 20
"""Requests at once: those of every worker (8 by default), with room for lists, events and logs."""

_LONG_ANSWER_BYTES = 64 * 1024
"""Takes a millisecond to parse. A page of a list has some 300 kB and takes five; after a restart
the first pages of all lists arrive together."""

T = TypeVar("T")

RequestListener = Callable[[str, str, str], None]
"""Called with (verb, plural, HTTP status or "error") after each request."""

LOG_LINE_BYTES = 8192
"""The runtime cuts longer lines of a step into pieces of this size."""

LOG_BYTES = 512 * 1024
"""Size of one log: 1,000 builds that are followed at once are read one after the other."""

MESSAGE_LIMIT = 600
"""An admission webhook may answer with pages; a condition's message should stay readable."""


class WritesForbiddenError(Exception):
    """A replica that may not write at this moment was about to; nothing was sent."""


async def connect(kubeconfig: str | None, context: str | None, *, watches: int = 0) -> ApiClient:
    """Return the library's client for a kubeconfig, or for the pod's ServiceAccount when None.

    Outside a pod and without a kubeconfig, the usual places are read (`KUBECONFIG`, `~/.kube`).
    `watches`: streams that stay open, each with a connection: others would wait for one to end. A
    configuration that is not found, or damaged, is a ClusterError.
    """
    configuration = Configuration()
    configuration.connection_pool_maxsize = watches + _REQUESTS
    # Proxies are read once, below: aiohttp would do it, with a .netrc, in a thread a request.
    configuration.client_session_kwargs = {"trust_env": False}
    try:
        if kubeconfig is None and context is None:
            try:
                load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the library's
            except ConfigException:
                await load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the library's
        else:
            await load_kube_config(  # type: ignore[no-untyped-call]  # the library's
                config_file=kubeconfig, context=context, client_configuration=configuration
            )
    except (ConfigException, OSError) as error:
        raise ClusterError(0, "kubeconfig", kubeconfig or "(default)", str(error)) from error
    configuration.proxy = configuration.proxy or _proxy_of(configuration.host)
    client = ApiClient(configuration)
    client.rest_client = RestClient(configuration)
    return client


def _proxy_of(host: str) -> str | None:
    """Return the proxy that the environment names for a server; None for none."""
    url = urlsplit(host)
    if proxy_bypass(url.hostname or ""):
        return None
    return getproxies().get(url.scheme)


class Client:
    """Requests on objects as dictionaries.

    `listener`: called after each request. `may_write`: checked before each write; a replica that
    lost the Lease stops here.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        timeout_seconds: float = 15.0,
        listener: RequestListener = lambda _verb, _plural, _code: None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._api = api
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._listener = listener
        self._may_write = may_write
        self._long_answers = asyncio.Lock()

    async def close(self) -> None:
        await self._api.close()  # type: ignore[no-untyped-call]  # the library's

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False
    ) -> dict[str, Any] | None:
        """Return an object, or None when it does not exist."""
        accept = f"{_METADATA};as=PartialObjectMetadata" if metadata_only else JSON
        try:
            return await self._json("get", resource, namespace, name, accept=accept)
        except ClusterError as error:
            if error.status == 404:  # noqa: PLR2004  # Not Found, here an answer and no error
                return None
            raise

    async def list(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        selector: str = "",
        fields: str = "",
        page: int = _PAGE,
        metadata_only: bool = False,
    ) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        """Yield (items, resource version) page by page; the version is the same on each page."""
        token = ""
        while True:
            query = {"limit": str(page)}
            query |= {"labelSelector": selector} if selector else {}
            query |= {"fieldSelector": fields} if fields else {}
            query |= {"continue": token} if token else {}
            accept = f"{_METADATA};as=PartialObjectMetadataList" if metadata_only else JSON
            answer = await self._json("list", resource, namespace, query=query, accept=accept)
            metadata = answer.get("metadata", {})
            yield answer.get("items") or [], metadata.get("resourceVersion", "")
            token = metadata.get("continue", "")
            if not token:
                return

    async def apply(
        self, resource: Resource, body: Mapping[str, Any], manager: str
    ) -> dict[str, Any]:
        """Server-side apply an object, taking over fields that others set (force)."""
        metadata = body["metadata"]
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        return await self._json(
            "patch",
            resource,
            metadata["namespace"],
            metadata["name"],
            query=query,
            body=body,
            content_type=APPLY,
        )

    async def merge(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
        manager: str = "",
    ) -> dict[str, Any]:
        """Merge-patch an object or a subresource; `manager` is noted as who set the fields."""
        return await self._json(
            "patch",
            resource,
            namespace,
            name,
            subresource=subresource,
            query={"fieldManager": manager} if manager else None,
            body=body,
            content_type=MERGE,
        )

    async def create(
        self, resource: Resource, namespace: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        return await self._json("create", resource, namespace, body=body)

    async def update(
        self, resource: Resource, namespace: str | None, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Replace an object; the body's resourceVersion guards against a change in between."""
        return await self._json("update", resource, namespace, name, body=body)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        version: str = "",
    ) -> None:
        """Delete an object and, in the background, what it owns. One that is gone is no error.

        `uid` makes the request fail (409) when another object took the name meanwhile, `version`
        when the object changed.
        """
        conditions = {"uid": uid, "resourceVersion": version}
        body: dict[str, Any] = {
            "propagationPolicy": "Background",
            "preconditions": {what: value for what, value in conditions.items() if value},
        }
        try:
            await self._json("delete", resource, namespace, name, body=body)
        except ClusterError as error:
            if error.status != 404:  # noqa: PLR2004  # gone already: what was wanted
                raise

    async def log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """Return the last lines of a container's log; empty when the pod is gone.

        What a container writes is a tenant's, and a line of it has no bound: the API server cuts
        the text, first lines first, at `LOG_LINE_BYTES` a line and at `LOG_BYTES` in all.
        """
        query = {
            "container": container,
            "tailLines": str(lines),
            "limitBytes": str(min(lines * LOG_LINE_BYTES, LOG_BYTES)),
        }
        try:
            answer = await self._send("get", POD, namespace, pod, subresource="log", query=query)
        except ClusterError as error:
            if error.status in {400, 404}:  # no such pod any more, or its container never started
                return ""
            raise
        async with answer:
            return await _within(answer.text(errors="replace"), POD, pod)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        selector: str,
        version: str,
        seconds: int,
        silence_seconds: float,
        fields: str = "",
        metadata_only: bool = False,
    ) -> aiohttp.ClientResponse:
        """Open a watch stream; the caller reads its lines and releases it.

        It ends by itself after `seconds`. `silence_seconds` without any line mean a dead
        connection: the API server sends a bookmark about once a minute.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        query |= {"labelSelector": selector} if selector else {}
        query |= {"fieldSelector": fields} if fields else {}
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timeout.total, sock_read=silence_seconds
        )
        accept = f"{_METADATA};as=PartialObjectMetadata" if metadata_only else JSON
        return await self._send(
            "watch", resource, namespace, query=query, timeout=timeout, accept=accept
        )

    async def _json(
        self, verb: str, resource: Resource, namespace: str | None, name: str = "", **rest: Any
    ) -> dict[str, Any]:
        answer = await self._send(verb, resource, namespace, name, **rest)
        async with answer:
            text = await _within(answer.read(), resource, name)
        if len(text) < _LONG_ANSWER_BYTES:
            return _parsed(text, resource, name)
        async with self._long_answers:  # one in a turn of the event loop
            await asyncio.sleep(0)
            return _parsed(text, resource, name)

    async def _send(
        self,
        verb: str,
        resource: Resource,
        namespace: str | None,
        name: str = "",
        *,
        subresource: str = "",
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109  # aiohttp's own, passed on
    ) -> aiohttp.ClientResponse:
        """Send one request and return its answer when the status is below 400."""
        if verb in _WRITES and not self._may_write():
            raise WritesForbiddenError
        headers = {"Accept": accept, "Content-Type": content_type}
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], "", "", None)
        url = self._api.configuration.host + resource.path(namespace, name, subresource)
        url += f"?{urlencode(query)}" if query else ""
        counted = f"{resource.plural}/{subresource}" if subresource else resource.plural
        try:
            sending = self._api.rest_client.request(  # type: ignore[no-untyped-call]  # the library's
                _METHODS[verb],
                url,
                headers=headers,
                body=body,
                _request_timeout=timeout or self._timeout,
            )
            answer: aiohttp.ClientResponse = (await _within(sending, resource, name)).response
        except ClusterError:
            self._listener(verb, counted, "error")
            raise
        self._listener(verb, counted, str(answer.status))
        if answer.status >= 400:  # noqa: PLR2004  # the lowest error status in HTTP
            async with answer:
                text = await _within(answer.text(errors="replace"), resource, name)
            named = name or (body or {}).get("metadata", {}).get("name", "")  # of a creation
            raise ClusterError(answer.status, resource.kind, named, _message(text))
        return answer


def _parsed(text: bytes, resource: Resource, name: str) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = orjson.loads(text)
    except ValueError as error:
        raise ClusterError(0, resource.kind, name, "the answer is not JSON") from error
    return parsed


async def _within(awaitable: Awaitable[T], resource: Resource, name: str) -> T:
    """Turn every failure to get an answer into a `ClusterError` with status 0."""
    try:
        return await awaitable
    except TimeoutError as error:
        raise ClusterError(
            0, resource.kind, name, "the API server did not answer in time"
        ) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ClusterError(0, resource.kind, name, f"{type(error).__name__}") from error


def _message(text: str) -> str:
    """Return the sentence of a Status object, or the start of whatever came instead."""
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        message = text
    return " ".join(str(message).split())[:MESSAGE_LIMIT]


REQUEST_SECONDS = 2.0
"""Two attempts fit into the renew deadline of 6.5 s, so one slow answer does not cost the lead."""


class LeaseObject:
    """A Lease by namespace and name. Implements `mm_operator.leadership.lease_thread.LeaseApi`."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    async def get(self) -> dict[str, Any] | None:
        return await self._client.get(LEASE, self._namespace, self._name)

    async def create(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Create the Lease; a ClusterError with 409 when it exists."""
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }
        return await self._client.create(LEASE, self._namespace, body)

    async def update(self, lease: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
        """Replace the spec; a ClusterError with 409 when the Lease changed since it was read."""
        return await self._client.update(
            LEASE, self._namespace, self._name, {**lease, "spec": spec}
        )
