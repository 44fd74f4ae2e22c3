"""From `spec.autoscaling.prometheus` and its Secrets to clients, one for each distinct endpoint."""

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Sequence

from mm_api.v1alpha1 import PrometheusSpec
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import SECRET
from mm_operator.errors import ClusterError
from mm_operator.scaling.answers import MetricsError
from mm_operator.scaling.own_prometheus import SECRET_SECONDS, OwnPrometheus
from mm_operator.scaling.peers import why_not_queried
from mm_operator.scaling.prometheus import Endpoint, Prometheus
from mm_operator.scaling.trust import trust

_FORBIDDEN = 403


class Endpoints:
    """Clients by endpoint; those that no model uses any more are closed.

    Args:
        client: reads Secrets.
        own: for models that name no Prometheus.
        allowed_hosts: the only ones that a spec may name, and named by the administrator: they are
            queried wherever they are, and a status says how they fail. Empty: every host that is
            neither this pod's, its node's, nor a metadata service.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        client: Client,
        own: OwnPrometheus,
        allowed_hosts: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._own = own
        self._allowed = tuple(allowed_hosts)
        self._clock = clock
        self._open: dict[Endpoint, Prometheus] = {}
        self._secrets: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}

    async def resolve(self, namespace: str, spec: PrometheusSpec | None) -> Endpoint:
        """Return where the metrics of a model are.

        Raises:
            MetricsError: nowhere, or a Secret is missing or damaged.
        """
        if spec is None:
            return await self._own.endpoint()
        for address in spec.addresses:
            if why := why_not_queried(address, self._allowed):
                raise MetricsError(f"{address} in autoscaling.prometheus is refused: {why}")
        tls = spec.tls
        token = username = password = ca = certificate = key = ""
        if (ref := spec.token_secret_ref) is not None:
            token = (await self._value(namespace, ref.name, ref.key)).strip()
        if (basic := spec.basic_auth_secret_ref) is not None:
            username = (await self._value(namespace, basic.name, "username")).strip()
            password = (await self._value(namespace, basic.name, "password")).strip()
        if tls.ca_secret_ref is not None:
            ca = await self._value(namespace, tls.ca_secret_ref.name, tls.ca_secret_ref.key)
        if tls.client_secret_ref is not None:
            certificate = await self._value(namespace, tls.client_secret_ref.name, "tls.crt")
            key = await self._value(namespace, tls.client_secret_ref.name, "tls.key")
        return Endpoint(
            addresses=tuple(spec.addresses),
            match_labels=tuple(sorted(spec.match_labels.items())),
            ca=ca,
            certificate=certificate,
            key=key,
            server_name=tls.server_name or "",
            insecure=tls.insecure_skip_verify,
            token=token,
            username=username,
            password=password,
            of_tenant=not self._allowed,
        )

    async def client(self, endpoint: Endpoint) -> Prometheus:
        """Return the client of an endpoint.

        Raises:
            MetricsError: a certificate is damaged.
        """
        if endpoint not in self._open:
            tls = await asyncio.to_thread(trust, endpoint)
            # Another batch of the same tick may have opened it meanwhile.
            if endpoint not in self._open:
                self._open[endpoint] = Prometheus(endpoint, tls, clock=self._clock)
        return self._open[endpoint]

    async def keep(self, used: set[Endpoint]) -> None:
        for endpoint in [known for known in self._open if known not in used]:
            await self._open.pop(endpoint).close()

    async def close(self) -> None:
        await self.keep(set())

    async def _value(self, namespace: str, name: str, key: str) -> str:
        held = self._secrets.get((namespace, name))
        if held is None or self._clock() - held[0] > SECRET_SECONDS:
            held = self._clock(), await self._read(namespace, name)
            self._secrets[namespace, name] = held
        if key not in held[1]:
            raise MetricsError(
                f"Secret {name} has no key {key}: create it or correct autoscaling.prometheus"
            )
        return held[1][key]

    async def _read(self, namespace: str, name: str) -> dict[str, str]:
        try:
            found = await self._client.get(SECRET, namespace, name)
        except ClusterError as error:
            if error.status == _FORBIDDEN:
                raise MetricsError(
                    f"the operator may not read Secret {name}: add it to the chart value "
                    f"autoscaling.modelSecrets (namespace {namespace}, names [{name}])"
                ) from error
            raise MetricsError(f"Secret {name} cannot be read: {error}") from error
        if found is None:
            raise MetricsError(f"there is no Secret {name} in the model's namespace: create it")
        try:
            return {
                key: base64.b64decode(value, validate=True).decode()
                for key, value in (found.get("data") or {}).items()
            }
        except (binascii.Error, UnicodeDecodeError) as error:
            raise MetricsError(f"Secret {name} holds a value that is not text") from error
