"""Which image URLs may be fetched at all, before any name is resolved."""

import re
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from mm_api.hosts import bracketed, host_port

_DEFAULT_PORTS = {"http": 80, "https": 443}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{64,}={0,2}")
_MAX_URL_CHARACTERS = 8192
"""Longer URLs are refused: common servers stop at 8 kB of request line."""


class UrlRefusedError(ValueError):
    """The URL is refused. The message is for the client."""


@dataclass(frozen=True, slots=True)
class Target:
    """One request to make. The host is lower case, without brackets; the path has the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        default = self.port == _DEFAULT_PORTS[self.scheme]
        return bracketed(self.host) if default else host_port(self.host, self.port)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_target(url: str, *, allowed_hosts: tuple[str, ...], any_port: bool) -> Target:
    """Check a URL against the policy and take it apart.

    `allowed_hosts`: exact names, or `*.name` for names below one; empty allows every host.
    `any_port`: allow ports besides 80 and 443.

    Raises:
        UrlRefusedError: the URL is malformed or refused.
    """
    if _BASE64.fullmatch(url[:_MAX_URL_CHARACTERS]):
        raise UrlRefusedError(
            "the URL looks like base64 alone; write data:image/png;base64, in front of it"
        )
    if len(url) > _MAX_URL_CHARACTERS:
        raise UrlRefusedError(f"the URL has {len(url)} characters, more than {_MAX_URL_CHARACTERS}")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise UrlRefusedError("the URL holds characters that must be percent-encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UrlRefusedError(f"the URL is malformed ({error})") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise UrlRefusedError(
            f"URLs of scheme {parts.scheme!r} are not fetched; use http, https or data"
        )
    if parts.username is not None or parts.password is not None:
        raise UrlRefusedError("the URL holds credentials; they are never sent")
    host = (parts.hostname or "").rstrip(".")
    if not host:
        raise UrlRefusedError("the URL names no host")
    if allowed_hosts and not any(_matches(host, pattern) for pattern in allowed_hosts):
        raise UrlRefusedError(f"host {host!r} is not among gateway.allowedHosts of this model")
    default = _DEFAULT_PORTS[parts.scheme]
    if port not in {None, 80, 443} and not any_port:
        raise UrlRefusedError(f"port {port} is refused; images are fetched from ports 80 and 443")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme=parts.scheme, host=host, port=default if port is None else port, path=path)


def join_redirect(source: Target, location: str) -> str:
    """Return the absolute URL of a redirect; UrlRefusedError: none, or https would become http."""
    if not location:
        raise UrlRefusedError(f"host {source.host!r} redirects without saying where to")
    try:
        joined = urljoin(source.url, location)
    except ValueError as error:
        raise UrlRefusedError(
            f"host {source.host!r} redirects to a malformed URL ({error})"
        ) from None
    # Schemes are compared without case: HTTP:// is http.
    if source.scheme == "https" and joined[:5].lower() == "http:":
        raise UrlRefusedError(f"host {source.host!r} redirects from https to http")
    return joined


def _matches(host: str, pattern: str) -> bool:
    pattern = pattern.lower().rstrip(".")
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern
