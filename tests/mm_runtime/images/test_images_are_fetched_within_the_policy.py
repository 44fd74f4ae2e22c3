"""Images are fetched within the policy, directly or through a proxy."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm_runtime.images.fetch import FetchPolicy, FetchRefusedError, ImageFetcher, refuse_private
from mm_runtime.images.proxies import FetchProxies, why_not_through_a_proxy
from mm_runtime.images.resolver import Entry, Resolver
from mm_runtime.images.urls import Target
from support.cases import cases
from support.certificates import signed_by_an_authority
from support.forward_proxy import ForwardProxy, forward_proxy
from support.http_servers import Exchange, serve_local
from support.images import encode, plain_image
from support.turns import counted_turns

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


HOST = "images.example.com"
"""A public name that only the proxy knows: this machine looks it up nowhere."""


@pytest.fixture
def names() -> dict[str, str]:
    return {}


@pytest.fixture
def proxy(names: dict[str, str]) -> Iterator[ForwardProxy]:
    with forward_proxy(names) as running:
        yield running


def fetcher(
    url: str,
    *,
    none_for: str = "",
    hosts: tuple[str, ...] = (),
    private: bool = False,
    seconds: float = 30,
) -> ImageFetcher:
    proxies = FetchProxies.of(
        {"MM_FETCH_HTTP_PROXY": url, "MM_FETCH_HTTPS_PROXY": url, "MM_FETCH_NO_PROXY": none_for}
    )
    return ImageFetcher(FetchPolicy(hosts, private, seconds, 10_000, proxies))


async def test_https_is_tunnelled_and_its_certificate_verified(
    proxy: ForwardProxy, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, certificate = signed_by_an_authority(tmp_path, "host", f"DNS:{HOST}")
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*certificate)
    async with serve_local(_image, server_side) as server:
        names[f"{HOST}:443"] = names["other.example.com:443"] = f"127.0.0.1:{server.port}"
        with pytest.raises(FetchRefusedError, match="CERTIFICATE_VERIFY_FAILED"):
            await fetcher(proxy.url).fetch(f"https://{HOST}/x.png")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert await fetcher(proxy.url).fetch(f"https://{HOST}/x.png") == IMAGE
        with pytest.raises(FetchRefusedError, match="CERTIFICATE_VERIFY_FAILED"):
            await fetcher(proxy.url).fetch("https://other.example.com/")
    assert proxy.tunnels == [f"{HOST}:443", f"{HOST}:443", "other.example.com:443"]
    assert server.server_names[-2:] == [HOST, "other.example.com"]


async def test_a_proxy_may_speak_tls_itself(
    names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, of_host = signed_by_an_authority(tmp_path, "host", f"DNS:{HOST}")
    second, of_proxy = signed_by_an_authority(tmp_path, "proxy", "IP:127.0.0.1")
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(first.read_text() + second.read_text())
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*of_host)
    with forward_proxy(names, of_proxy) as proxy:
        async with serve_local(_image, server_side) as tls, serve_local(_image) as plain:
            names[f"{HOST}:443"] = f"127.0.0.1:{tls.port}"
            names[f"{HOST}:80"] = f"127.0.0.1:{plain.port}"
            monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
            assert await fetcher(proxy.url).fetch(f"https://{HOST}/") == IMAGE
            assert await fetcher(proxy.url).fetch(f"http://{HOST}/") == IMAGE
            monkeypatch.setenv("SSL_CERT_FILE", str(first))
            with pytest.raises(FetchRefusedError, match="CERTIFICATE_VERIFY_FAILED"):
                await fetcher(proxy.url).fetch(f"https://{HOST}/")
    assert (proxy.tunnels, proxy.hosts) == ([f"{HOST}:443"], [f"{HOST}:80"])


async def test_http_is_requested_of_the_proxy(proxy: ForwardProxy, names: dict[str, str]) -> None:

    async def handler(exchange: Exchange) -> None:
        if exchange.path == "/old":
            await exchange.answer(302, location="/new?a=b")
        else:
            await exchange.answer(200, IMAGE)

    async with serve_local(handler) as server:
        names[f"{HOST}:80"] = f"127.0.0.1:{server.port}"
        assert await fetcher(proxy.url).fetch(f"http://{HOST}/old") == IMAGE
    assert [one.path for one in server.exchanges] == ["/old", "/new?a=b"]
    assert proxy.hosts == [f"{HOST}:80"] * 2


@cases(
    "host reason",
    {
        "loopback": ("127.0.0.1", "loopback"),
        "metadata": ("169.254.169.254", "metadata"),
        "another-notation": ("0x7f.1", "loopback"),
        "read-in-two-ways": ("010.8.8.8", "write that one"),
        "ipv6": ("[fd00::1]", "is an IPv6 address"),
        "localhost": ("localhost", "private network"),
        "one-label": ("kubernetes", "private network"),
        "a-service": ("billing.default.svc", "private network"),
        "its-long-name": ("billing.default.svc.cluster.local.", "private network"),
        "a-clouds-metadata": ("metadata.google.internal", "private network"),
    },
)
async def test_what_is_private_by_its_spelling_is_refused_before_the_proxy_learns_of_it(
    proxy: ForwardProxy, host: str, reason: str
) -> None:
    for scheme in ("http", "https"):
        with pytest.raises(FetchRefusedError, match=reason):
            await fetcher(proxy.url).fetch(f"{scheme}://{host}/")
    assert (proxy.hosts, proxy.tunnels) == ([], [])


@cases(
    "host private",
    {
        "public-v4": ("8.8.8.8", False),
        "public-v6": ("2606:4700:4700::1111", False),
        "mapped": ("::ffff:10.0.0.1", True),
        "private-v6": ("fd00::1", True),
        "name": ("images.example.com", False),
        "a-label-within": ("internal.example.com", False),
    },
)
def test_public_hosts_are_left_to_the_proxy(host: str, *, private: bool) -> None:
    """What the spelling does not show is the proxy's to decide."""
    assert (why_not_through_a_proxy(host) is not None) == private


async def test_a_redirect_to_what_is_private_is_refused(
    proxy: ForwardProxy, names: dict[str, str]
) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(302, location="http://169.254.169.254/latest/meta-data")

    async with serve_local(handler) as server:
        names[f"{HOST}:80"] = f"127.0.0.1:{server.port}"
        with pytest.raises(FetchRefusedError, match="metadata"):
            await fetcher(proxy.url).fetch(f"http://{HOST}/")
    assert proxy.hosts == [f"{HOST}:80"]


async def test_hosts_that_are_not_allowed_are_refused(proxy: ForwardProxy) -> None:
    allowed = fetcher(proxy.url, hosts=("*.example.org",))
    with pytest.raises(FetchRefusedError, match="not among"):
        await allowed.fetch(f"https://{HOST}/")
    with pytest.raises(FetchRefusedError, match="port 22"):
        await fetcher(proxy.url).fetch(f"https://{HOST}:22/")
    assert proxy.tunnels == []


async def test_hosts_without_the_proxy_are_checked_by_their_addresses(proxy: ForwardProxy) -> None:
    async with serve_local(_image) as server:
        url = f"http://localhost:{server.port}/"
        direct = fetcher(proxy.url, none_for="other, localhost", private=True)
        assert await direct.fetch(url) == IMAGE
        assert proxy.hosts == []
        assert await fetcher(proxy.url, private=True).fetch(url) == IMAGE
        assert proxy.hosts == [f"localhost:{server.port}"]
    with pytest.raises(FetchRefusedError, match="one that is not public"):
        await fetcher(proxy.url, none_for="localhost").fetch("http://localhost/")


async def test_what_the_proxy_does_wrong_is_said(proxy: ForwardProxy) -> None:
    """A refusal, and a proxy that is not there: clients learn neither its name nor its address."""
    with pytest.raises(FetchRefusedError, match=r"refused the host \(403"):
        await fetcher(proxy.url).fetch("https://refused.example/")
    for scheme in ("http", "https"):
        with pytest.raises(FetchRefusedError, match=r"does not answer; .* spec\.network\.proxy"):
            await fetcher("http://127.0.0.1:1").fetch(f"{scheme}://{HOST}/")


async def test_a_proxy_that_hangs_is_left_at_the_deadline() -> None:
    """The time is the image's: tunnels count, too."""

    async def silent(_exchange: Exchange) -> None:
        await asyncio.sleep(60)

    async with serve_local(silent) as server:
        hanging = fetcher(f"http://127.0.0.1:{server.port}")
        for scheme in ("http", "https"):
            with (
                counted_turns(),
                pytest.raises(FetchRefusedError, match="not fetched within 30 seconds"),
            ):
                await hanging.fetch(f"{scheme}://{HOST}/")
    assert len(server.exchanges) == 2


PROXY = "http://proxy.example.com:3128"


@cases(
    "direct host port expected",
    {
        "none": ("", HOST, 443, PROXY),
        "all": ("*", HOST, 443, ""),
        "domain": ("example.com", HOST, 443, ""),
        "domain-with-dot": (".example.com", HOST, 443, ""),
        "domain-with-star": (" a ,*.Example.com", HOST, 443, ""),
        "no-label": ("ges.example.com", HOST, 443, PROXY),
        "port": ("images.example.com:443", HOST, 443, ""),
        "another-port": ("images.example.com:443", HOST, 8443, PROXY),
        "network": ("8.8.0.0/16", "8.8.1.1", 443, ""),
        "another-network": ("8.8.0.0/16", "8.9.1.1", 443, PROXY),
        "networks-have-no-names": ("8.8.0.0/16", HOST, 443, PROXY),
        "network-v6": ("2001:db8::/32", "2001:db8::1", 443, ""),
        "address-v6": ("[2001:db8::1]", "2001:db8::1", 443, ""),
    },
)
def test_hosts_without_the_proxy_are_known_by_name_domain_or_network(
    direct: str, host: str, port: int, expected: str
) -> None:
    proxies = FetchProxies.of({"MM_FETCH_HTTPS_PROXY": PROXY, "MM_FETCH_NO_PROXY": direct})

    assert proxies.of_target(Target("https", host, port, "/")) == expected
    assert proxies.of_target(Target("http", host, 80, "/")) == ""
