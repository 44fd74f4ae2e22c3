"""external.metrics.k8s.io answers the API server's own certificate and no one else, over TLS."""

import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from mm_devcluster.cluster import ClusterInfo
from mm_operator.cluster.client import Client, connect
from mm_operator.cluster.models import ModelCache
from mm_operator.scaling.front_proxy import FrontProxy, read_front_proxy
from mm_operator.scaling.metrics_api import GROUP_VERSION, serve_metrics_api
from support.certificates import signed_by_itself


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities; client certificates of the first for two names, of the second for one."""
    where = tmp_path_factory.mktemp("certificates")
    signed_by_itself(where, "tls")
    for authority in ("front", "other"):
        signed_by_itself(where, authority)
    _signed(where, "proxy", "front-proxy-client", "front")
    _signed(where, "tenant", "tenant", "front")
    _signed(where, "forged", "front-proxy-client", "other")
    return where


def _signed(where: Path, name: str, common_name: str, authority: str) -> None:
    """Write a client certificate of an authority and its key."""
    request, certificate, key = (where / f"{name}.{end}" for end in ("csr", "crt", "key"))
    requested = [
        *("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-subj", f"/CN={common_name}", "-keyout", str(key), "-out", str(request)),
    ]
    signed = [
        *("openssl", "x509", "-req", "-days", "1", "-in", str(request), "-out", str(certificate)),
        *("-CA", str(where / f"{authority}.crt"), "-CAkey", str(where / f"{authority}.key")),
        "-CAcreateserial",
    ]
    for command in (requested, signed):
        subprocess.run(command, check=True, capture_output=True, timeout=60)


@asynccontextmanager
async def served(folder: Path, *names: str) -> AsyncIterator[str]:
    """Serve the API for the first authority; yield the address of its list of resources."""
    front_proxy = FrontProxy((folder / "front.crt").read_text(encoding="utf-8"), names)
    runner, port = await serve_metrics_api(
        ModelCache(),
        port=0,
        certificate=str(folder / "tls.crt"),
        key=str(folder / "tls.key"),
        front_proxy=front_proxy,
        address="127.0.0.1",
    )
    try:
        yield f"https://127.0.0.1:{port}/apis/{GROUP_VERSION}"
    finally:
        await runner.cleanup()


async def requested(folder: Path, address: str, name: str) -> int:
    """Return the status of an answer to a client with a certificate; 0 when TLS refuses it."""
    context = ssl.create_default_context(cafile=str(folder / "tls.crt"))
    if name:
        context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        try:
            async with session.get(address, ssl=context) as answer:
                return answer.status
        except aiohttp.ClientError:
            return 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("proxy", 200, id="the-api-server"),
        pytest.param("tenant", 403, id="another-name"),
        pytest.param("forged", 0, id="another-authority"),
        pytest.param("", 0, id="no-certificate"),
    ],
)
async def test_others_are_refused(folder: Path, name: str, expected: int) -> None:
    """The name and the authority of the certificate are both looked at."""
    async with served(folder, "front-proxy-client") as address:
        assert await requested(folder, address, name) == expected


async def test_without_names_every_certificate_of_the_authority_counts(folder: Path) -> None:
    """As the API server's own documentation has it for an empty list."""
    async with served(folder) as address:
        assert await requested(folder, address, "tenant") == 200
        assert await requested(folder, address, "forged") == 0


@pytest.mark.cluster
async def test_the_api_server_publishes_itself(control_plane: ClusterInfo) -> None:
    """A real one names the authority and the names of its certificate."""
    client = Client(await connect(str(control_plane.kubeconfig), None))
    try:
        front_proxy = await read_front_proxy(client)
    finally:
        await client.close()

    assert front_proxy.authority.startswith("-----BEGIN CERTIFICATE-----")
    ssl.create_default_context(cadata=front_proxy.authority)
