"""A real Prometheus behind TLS, passwords and client certificates, as its web.config makes it."""

import asyncio
import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_operator.scaling.answers import MetricsError, read_vector
from mm_operator.scaling.own_prometheus import OwnPrometheus
from mm_operator.scaling.prometheus import OwnPrometheusSettings, Prometheus
from support.cases import cases
from support.certificates import signed_by_itself
from support.ports import free_ports
from support.prometheus import running_prometheus

USER, PASSWORD = "ada", "correct horse"
# What `htpasswd -nbB` prints for the password, with the fewest rounds.
HASH = "$2b$04$swoxCMuDgC3T/3DbKlU6rulvi5tywoB6iEwJ6XdxL/P4BDIuUwblS"


@pytest.fixture(name="guarded", scope="module")
def guarded_prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """One that wants a client certificate and a password; and the folder of all certificates."""
    folder = tmp_path_factory.mktemp("guarded")
    for name in ("server", "client", "stranger"):
        signed_by_itself(folder, name)
    web = {
        "tls_server_config": {
            "cert_file": str(folder / "server.crt"),
            "key_file": str(folder / "server.key"),
            "client_auth_type": "RequireAndVerifyClientCert",
            "client_ca_file": str(folder / "client.crt"),
        },
        "basic_auth_users": {USER: HASH},
    }
    file = folder / "web.yml"
    file.write_text(yaml.safe_dump(web))
    tls = ssl.create_default_context(cafile=str(folder / "server.crt"))
    tls.load_cert_chain(folder / "client.crt", folder / "client.key")
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    with running_prometheus(
        folder,
        {},
        port=free_ports(1)[0],
        arguments=(f"--web.config.file={file}",),
        tls=tls,
        authorization=f"Basic {pair}",
    ) as server:
        yield server.address, folder


def secret(folder: Path, certificates: Path, **changes: str | None) -> Path:
    """Lay a Secret's keys into a folder, as the kubelet does; None leaves one out."""
    keys: dict[str, str | None] = {
        "ca.crt": (certificates / "server.crt").read_text(),
        "tls.crt": (certificates / "client.crt").read_text(),
        "tls.key": (certificates / "client.key").read_text(),
        "username": USER,
        "password": f"{PASSWORD}\n",
        **changes,
    }
    for name, content in keys.items():
        (folder / name).unlink(missing_ok=True)
        if content is not None:
            (folder / name).write_text(content)
    return folder


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prometheus.__init__, "__defaults__", (60.0,))


async def requested(own: OwnPrometheus) -> list[Any]:
    try:
        return read_vector(await (await own.client()).query("vector(1)"))
    finally:
        await own.close()


@cases("absent", {"alone": (), "other-of-a-pair": ("https://127.0.0.1:1",)})
async def test_the_operators_own_secret_opens_it(
    absent: tuple[str, ...], guarded: tuple[str, Path], tmp_path: Path
) -> None:
    address, certificates = guarded
    folder = secret(tmp_path, certificates)
    own = OwnPrometheus(OwnPrometheusSettings((*absent, address), credentials=str(folder)))

    assert [one.value for one in await requested(own)] == [1.0]


@cases(
    "changes sentence",
    {
        "password": ({"password": "wrong"}, "refused the credentials"),
        "no-credentials": ({"username": None, "password": None}, "refused the credentials"),
        "authority": ({"ca.crt": None}, "a certificate that is not trusted"),
        "no-certificate": ({"tls.crt": None, "tls.key": None}, "requires a client certificate"),
        "other": ({"tls.crt": "stranger.crt", "tls.key": "stranger.key"}, "that it trusts"),
    },
)
async def test_what_is_wrong_is_reported(
    guarded: tuple[str, Path], tmp_path: Path, changes: dict[str, str | None], sentence: str
) -> None:
    address, certificates = guarded
    read = {
        key: (certificates / text).read_text() if text and text.startswith("stranger") else text
        for key, text in changes.items()
    }
    folder = secret(tmp_path, certificates, **read)
    own = OwnPrometheus(OwnPrometheusSettings((address,), credentials=str(folder)))

    with pytest.raises(MetricsError, match=sentence):
        await requested(own)


async def test_a_reset_after_the_handshake_names_the_certificate(
    guarded: tuple[str, Path], tmp_path: Path
) -> None:
    """In TLS 1.3 the reset of a server that refuses a certificate can overtake its alert."""
    _, certificates = guarded
    own_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own_side.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    folder = secret(tmp_path, certificates)

    async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", ssl=own_side)
    async with server:
        address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        own = OwnPrometheus(OwnPrometheusSettings((address,), credentials=str(folder)))
        with pytest.raises(MetricsError, match="that it trusts, set "):
            await requested(own)


async def test_a_renewed_secret_is_read(guarded: tuple[str, Path], tmp_path: Path) -> None:
    """The kubelet changes a password in place: a minute later the new one is sent."""
    address, certificates = guarded
    folder = secret(tmp_path, certificates, password="old")
    now = [0.0]
    settings = OwnPrometheusSettings((address,), credentials=str(folder))
    own = OwnPrometheus(settings, clock=lambda: now[0])
    old = await own.client()
    with pytest.raises(MetricsError, match="refused the credentials"):
        await old.query("vector(1)")

    secret(tmp_path, certificates)
    now[0] = 61.0
    renewed = await own.client()
    now[0] = 122.0

    assert await own.client() is renewed
    assert len(await requested(own)) == 1


@cases(
    "keys sentence",
    {
        "empty": ({}, "has none of the keys token, username"),
        "both": ({"token": "a", "username": "b", "password": "c"}, "remove one"),
        "no-password": ({"username": "b"}, "has only one of username and password"),
        "no-key": ({"tls.crt": "b"}, "has only one of tls.crt and tls.key"),
    },
)
async def test_a_damaged_secret_is_reported(
    tmp_path: Path, keys: dict[str, str], sentence: str
) -> None:
    for name, content in keys.items():
        (tmp_path / name).write_text(content)
    own = OwnPrometheus(OwnPrometheusSettings(("https://a",), credentials=str(tmp_path)))

    with pytest.raises(MetricsError, match=sentence):
        await own.client()


async def test_without_an_address_nothing_is_queried() -> None:
    with pytest.raises(MetricsError, match=r"set the chart value prometheus\.addresses"):
        await OwnPrometheus(OwnPrometheusSettings()).client()
