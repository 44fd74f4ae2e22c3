"""What a URL may look like."""

import pytest

from mm_runtime.images.urls import UrlRefusedError, join_redirect, parse_target
from support.cases import cases


@cases(
    "url reason",
    {
        "scheme": ("ftp://h/x", "scheme 'ftp'"),
        "no-scheme": ("//h/x", "scheme ''"),
        "no-host": ("http:///x", "no host"),
        "base64-alone": ("iVBORw0K" * 20, "write data:image/png;base64, in front"),
        "much-base64-alone": ("/9j/4AAQ" * 9_000, "looks like base64 alone"),
        "credentials": ("http://u:p@h/x", "credentials"),
        "user-only": ("http://u@h/x", "credentials"),
        "port": ("http://h:8080/x", "port 8080"),
        "port-too-high": ("http://h:99999/x", "malformed"),
        "port-not-a-number": ("http://h:x/", "malformed"),
        "open-bracket": ("http://[::1/x", "malformed"),
        "backslash": ("http://h\\@evil/x", "percent-encoded"),
        "line-break": ("http://h/\r\nHost: evil", "percent-encoded"),
        "not-ascii": ("http://h/ä", "percent-encoded"),
        "too-long": ("http://h/" + "x" * 9000, "9009 characters"),
        "not-allowed": ("http://other/x", "'other' is not among"),
        "suffix-is-no-subdomain": ("http://evilexample.org/x", "not among"),
    },
)
def test_a_refused_url_says_why(url: str, reason: str) -> None:
    with pytest.raises(UrlRefusedError, match=reason):
        parse_target(url, allowed_hosts=("h", "*.example.org"), any_port=False)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://h", ("http", "h", 80, "/", "h")),
        ("HTTPS://H/a?b=c#d", ("https", "h", 443, "/a?b=c", "h")),
        ("http://h:443/", ("http", "h", 443, "/", "h:443")),
        ("http://h./x", ("http", "h", 80, "/x", "h")),
        ("http://a.example.org/x", ("http", "a.example.org", 80, "/x", "a.example.org")),
    ],
)
def test_a_url_is_taken_apart(url: str, parts: tuple[object, ...]) -> None:
    target = parse_target(url, allowed_hosts=("h", "*.example.org"), any_port=False)
    assert parts == (target.scheme, target.host, target.port, target.path, target.authority)


def test_private_networks_allow_any_port() -> None:
    """Servers inside a cluster listen anywhere."""
    assert parse_target("http://h:8080/x", allowed_hosts=(), any_port=True).port == 8080


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/b", "https://h/b"),
        ("b?c", "https://h/b?c"),
        ("https://other/b", "https://other/b"),
        ("//other/b", "https://other/b"),
    ],
)
def test_redirects_are_joined(location: str, url: str) -> None:
    source = parse_target("https://h/a", allowed_hosts=(), any_port=False)
    assert url == join_redirect(source, location)


@cases(
    "location",
    {
        "nowhere": "",
        "downgrade": "http://h/b",
        "downgrade-in-capitals": "HTTP://h/b",
        "downgrade-in-mixed-letters": "Http://h/b",
    },
)
def test_bad_redirects_are_refused(location: str) -> None:
    source = parse_target("https://h/a", allowed_hosts=(), any_port=False)
    with pytest.raises(UrlRefusedError, match="redirects"):
        join_redirect(source, location)
