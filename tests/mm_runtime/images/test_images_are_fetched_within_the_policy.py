"""Images are fetched within the policy, directly or through a proxy."""

import asyncio
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from mm_runtime.images.fetch import FetchPolicy, FetchRefusedError, ImageFetcher, refuse_private
from mm_runtime.images.resolver import Entry, Resolver
from support.cases import cases
from support.http_servers import Exchange, serve_local
from support.images import encode, plain_image

IMAGE = encode(plain_image())


def _fetcher(
    *, private: bool = True, hosts: tuple[str, ...] = (), seconds: float = 60, limit: int = 10_000
) -> ImageFetcher:
    return ImageFetcher(FetchPolicy(hosts, private, seconds, limit))


async def _image(exchange: Exchange) -> None:
    await exchange.answer(200, IMAGE)


async def test_an_image_arrives_byte_for_byte() -> None:
    async with serve_local(_image) as server:
        content = await _fetcher().fetch(f"http://localhost:{server.port}/a/b.png?c=d#e")
    assert content == IMAGE
    requested = server.exchanges[0]
    assert requested.path == "/a/b.png?c=d"
    assert requested.headers["host"] == f"localhost:{server.port}"
    assert requested.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"],  # noqa: S104 - a target, not bound
)
async def test_loopback_is_refused_in_every_spelling(host: str) -> None:
    """The resolved address decides, not how it is written."""
    with pytest.raises(FetchRefusedError, match="not public"):
        await _fetcher(private=False).fetch(f"http://{host}/x.png")


def test_one_private_address_among_public_ones_refuses_the_host() -> None:
    with pytest.raises(FetchRefusedError, match="one that is not public"):
        refuse_private("rebinding.example", ["93.184.216.34", "10.0.0.1"])


async def test_names_of_the_cluster_are_not_distinguished_from_unknown_ones() -> None:
    def look_up(host: str, port: int) -> list[Entry]:
        if host != "billing.internal.example":
            raise OSError
        return socket.getaddrinfo("10.1.2.3", port, type=socket.SOCK_STREAM)

    policy = FetchPolicy((), allow_private_networks=False, timeout_seconds=60, max_bytes=1)
    fetcher = ImageFetcher(policy, resolver=Resolver(look_up=look_up))
    reported = []
    for name in ("billing", "nothing"):
        with pytest.raises(FetchRefusedError) as caught:
            await fetcher.fetch(f"http://{name}.internal.example/")
        reported.append(str(caught.value).replace(name, "NAME"))
    assert reported[0] == reported[1]


async def test_a_redirect_is_followed() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.path == "/old":
            await exchange.answer(302, location="/new")
        else:
            await exchange.answer(200, IMAGE)

    async with serve_local(handler) as server:
        assert await _fetcher().fetch(f"http://localhost:{server.port}/old") == IMAGE
    assert [exchange.path for exchange in server.exchanges] == ["/old", "/new"]


async def test_a_redirect_is_checked_like_the_first_url() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(302, location="http://127.0.0.1/latest/meta-data")

    async with serve_local(handler) as server:
        with pytest.raises(FetchRefusedError, match=r"'127.0.0.1' is not among"):
            await _fetcher(hosts=("localhost",)).fetch(f"http://localhost:{server.port}/")


async def test_redirects_end() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(307, location="/again")

    async with serve_local(handler) as server:
        with pytest.raises(FetchRefusedError, match="more than 3 times"):
            await _fetcher().fetch(f"http://localhost:{server.port}/")
    assert len(server.exchanges) == 4


@pytest.mark.parametrize("length", [True, False], ids=["declared", "undeclared"])
async def test_too_much_is_refused(*, length: bool) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(200, b"x" * 10_001, length=length)

    async with serve_local(handler) as server:
        with pytest.raises(FetchRefusedError, match=r"more .*bytes|bytes, more than"):
            await _fetcher().fetch(f"http://localhost:{server.port}/")


async def test_a_slow_host_is_left_at_the_deadline() -> None:
    """The deadline holds for the entire image: a byte now and then does not extend it."""

    async def handler(exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(100):
            exchange.writer.write(b"x")
            await exchange.writer.drain()
            await asyncio.sleep(0.05)

    async with serve_local(handler) as server:
        with pytest.raises(FetchRefusedError, match=r"not fetched within 0\.3 seconds"):
            await _fetcher(seconds=0.3).fetch(f"http://localhost:{server.port}/")


@cases(
    "answer reason",
    {
        "404": (b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n", "status 404"),
        "nowhere": (b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", "where to"),
        "cut": (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", "RemoteProtocol"),
        "not-http": (b"SSH-2.0-OpenSSH\r\n", "RemoteProtocol"),
    },
)
async def test_a_host_that_fails_is_named_as_the_cause(answer: bytes, reason: str) -> None:

    async def handler(exchange: Exchange) -> None:
        exchange.writer.write(answer)
        await exchange.writer.drain()

    async with serve_local(handler) as server:
        with pytest.raises(FetchRefusedError, match=reason):
            await _fetcher().fetch(f"http://localhost:{server.port}/")


async def test_a_closed_port_and_an_unknown_name_are_reported() -> None:
    with pytest.raises(FetchRefusedError, match="could not connect"):
        await _fetcher().fetch("http://127.0.0.1:1/")
    with pytest.raises(FetchRefusedError, match="has no address"):
        await _fetcher().fetch("http://no-such-host.invalid/")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    subject = "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(
        [*request.split(), *subject.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return certificate, key


async def test_tls_verifies_the_name_at_the_pinned_address(certificate: tuple[Path, Path]) -> None:
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*certificate)
    fetcher = ImageFetcher(
        FetchPolicy((), allow_private_networks=True, timeout_seconds=60, max_bytes=10_000),
        ssl.create_default_context(cafile=certificate[0]),
    )
    async with serve_local(_image, server_side) as server:
        assert await fetcher.fetch(f"https://localhost:{server.port}/") == IMAGE
        with pytest.raises(FetchRefusedError, match="CERTIFICATE_VERIFY_FAILED"):
            await fetcher.fetch(f"https://127.0.0.1:{server.port}/")
    assert server.server_names[0] == "localhost"


async def test_authorities_are_those_of_the_environment(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host with a certificate of a private authority: pods name the bundle in SSL_CERT_FILE."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*certificate)
    policy = FetchPolicy((), allow_private_networks=True, timeout_seconds=60, max_bytes=10_000)
    async with serve_local(_image, server_side) as server:
        with pytest.raises(FetchRefusedError, match="CERTIFICATE_VERIFY_FAILED"):
            await ImageFetcher(policy).fetch(f"https://localhost:{server.port}/")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert await ImageFetcher(policy).fetch(f"https://localhost:{server.port}/") == IMAGE
