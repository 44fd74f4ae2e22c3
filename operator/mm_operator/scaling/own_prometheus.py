"""The operator's own Prometheus: addresses from flags, credentials from a mounted Secret.

The kubelet renews the files of a Secret in place, so they are read again each minute: a renewed
token needs no restart.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mm_operator.scaling.answers import MetricsError
from mm_operator.scaling.prometheus import Endpoint, OwnPrometheusSettings, Prometheus, trust

SECRET_SECONDS = 60.0
"""A renewed token is read within a minute; 1,000 models do not read 1,000 Secrets a tick."""

KEYS = ("token", "username", "password", "ca.crt", "tls.crt", "tls.key")
"""Keys of the Secret. Each is optional; others are not looked at."""

_MOST_BYTES = 1 << 20
"""The most that a Secret holds."""


@dataclass(slots=True)
class OwnPrometheus:
    """Makes the client, again when its Secret has changed."""

    settings: OwnPrometheusSettings
    clock: Callable[[], float] = time.monotonic
    _client: Prometheus | None = field(default=None, init=False)
    _read_at: float = field(default=0.0, init=False)

    async def client(self) -> Prometheus:
        """Return where the metrics of all models are; it lasts until the next call.

        Raises:
            MetricsError: nowhere, or the Secret is damaged.
        """
        if not self.settings.addresses:
            raise MetricsError("no Prometheus is named: set the chart value prometheus.addresses")
        if self._client is None or self.clock() - self._read_at > SECRET_SECONDS:
            endpoint = await asyncio.to_thread(read_endpoint, self.settings)
            if self._client is None or self._client.endpoint != endpoint:
                made = Prometheus(endpoint, await asyncio.to_thread(trust, endpoint))
                await self.close()
                self._client = made
            self._read_at = self.clock()
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


def read_endpoint(settings: OwnPrometheusSettings) -> Endpoint:
    """Return the endpoint with the credentials that lie in its folder now.

    Raises:
        MetricsError: they do not fit together, or are no text.
    """
    found: dict[str, str] = {}
    if settings.credentials is not None:
        folder = Path(settings.credentials)
        found = {key: _text(folder / key) for key in KEYS if (folder / key).is_file()}
        if problem := _problem(found):
            raise MetricsError(f"the Secret of the operator's own Prometheus {problem}")
    return Endpoint(
        **asdict(settings),
        ca=found.get("ca.crt", ""),
        certificate=found.get("tls.crt", ""),
        key=found.get("tls.key", ""),
        token=found.get("token", "").strip(),
        username=found.get("username", "").strip(),
        password=found.get("password", "").strip(),
    )


def _problem(found: Mapping[str, str]) -> str:
    if not found:
        return f"has none of the keys {', '.join(KEYS)}: see chart value prometheus.secretName"
    if {"token", "username"} <= found.keys():
        return "has a token and a username: remove one of them"
    for one, other in (("username", "password"), ("tls.crt", "tls.key")):
        if (one in found) != (other in found):
            return f"has only one of {one} and {other}: add the other"
    return ""


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise MetricsError(f"{file} is larger than a Secret can be")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MetricsError(f"{file} cannot be read as text ({type(error).__name__})") from error
