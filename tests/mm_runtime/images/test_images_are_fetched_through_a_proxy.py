"""Through a real proxy on loopback: what is tunnelled, what is refused before it learns of it."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm_runtime.images.fetch import FetchPolicy, FetchRefusedError, ImageFetcher
from mm_runtime.images.proxies import FetchProxies, why_not_through_a_proxy
from mm_runtime.images.urls import Target
from support.cases import cases
from support.certificates import signed_by_an_authority
from support.forward_proxy import ForwardProxy, forward_proxy
from support.http_servers import Exchange, serve_local
from support.images import encode, plain_image
from support.turns import counted_turns

IMAGE = encode(plain_image())
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


async def _image(exchange: Exchange) -> None:
    await exchange.answer(200, IMAGE)


async def test_https_is_tunnelled_and_its_certificate_verified(
    proxy: ForwardProxy, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy resolves the name; TLS is between pod and host, by the authorities of the pod."""
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
    """A tunnel of TLS within TLS, and a request; each certificate is verified."""
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
    """Each hop is checked like the first."""

    async def handler(exchange: Exchange) -> None:
        await exchange.answer(302, location="http://169.254.169.254/latest/meta-data")

    async with serve_local(handler) as server:
        names[f"{HOST}:80"] = f"127.0.0.1:{server.port}"
        with pytest.raises(FetchRefusedError, match="metadata"):
            await fetcher(proxy.url).fetch(f"http://{HOST}/")
    assert proxy.hosts == [f"{HOST}:80"]


async def test_hosts_that_are_not_allowed_are_refused(proxy: ForwardProxy) -> None:
    """With the words of fetches without a proxy; ports, too."""
    allowed = fetcher(proxy.url, hosts=("*.example.org",))
    with pytest.raises(FetchRefusedError, match="not among"):
        await allowed.fetch(f"https://{HOST}/")
    with pytest.raises(FetchRefusedError, match="port 22"):
        await fetcher(proxy.url).fetch(f"https://{HOST}:22/")
    assert proxy.tunnels == []


async def test_hosts_without_the_proxy_are_checked_by_their_addresses(proxy: ForwardProxy) -> None:
    """What noProxy names is reached directly, under the rules of direct fetches."""
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
