"""A small server on loopback that speaks the download API of the Hugging Face Hub.

What it answers is what huggingface.co answers, as far as the client reads it: the revision with its
files (`/api/models/REPO/revision/REV`), and files (`/REPO/resolve/REV/NAME`) with commit, ETag,
size and ranges; large ones are redirected to another path, as the Hub does to its CDN.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from support.http_servers import served_in_threads

REPOSITORY = "acme/tiny-llava"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PAUSE_SECONDS = 60.0
"""Longer than a test looks at a server that stands still."""

LARGE_BYTES = 4096
"""From here on a file is in large file storage: a SHA-256 and a redirect."""


@dataclass
class Hub:
    """What the server holds, how it misbehaves, and what it was queried."""

    directory: Path
    endpoint: str = ""
    cdn: str = ""
    """Base URL that large files are redirected to."""
    commit: str = COMMIT
    branches: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    token: str | None = None
    """When set, every request needs it."""
    gated: bool = False
    ranges: bool = True
    refuse: list[int] = field(default_factory=list)
    """Status codes that the next requests get, one each."""
    cut_after: list[int] = field(default_factory=list)
    """Bytes after which the connection of the next large file's answer is cut, one answer each."""
    pause_after: int | None = None
    """Bytes after which a large file's answer stands still until `resumed` is set."""
    resumed: threading.Event = field(default_factory=threading.Event)
    tampered: set[str] = field(default_factory=set)
    """Files that are sent with other bytes than their metadata announce."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and Range of every request."""
    bytes_sent: int = 0

    @property
    def environment(self) -> dict[str, str]:
        return {"HF_ENDPOINT": self.endpoint, **({"HF_TOKEN": self.token} if self.token else {})}

    def content(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def sibling(self, path: Path) -> dict[str, Any]:
        content = path.read_bytes()
        entry = {
            "rfilename": path.relative_to(self.directory).as_posix(),
            "size": len(content),
            "blobId": blob_id(content),
        }
        if len(content) >= LARGE_BYTES:
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
        return entry


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 (git's)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:  # noqa: PLR0911 (one for each kind of answer)
        hub = self.hub
        path = unquote(urlsplit(self.path).path)
        hub.requests.append((self.command, path, self.headers.get("Range", "")))
        if hub.refuse:
            return self._send(hub.refuse.pop(0), b"{}")
        if path.startswith("/cdn/"):
            # A CDN's address is signed: it must not be shown the token.
            assert "Authorization" not in self.headers or hub.cdn == hub.endpoint
            return self._file(path.removeprefix("/cdn/"), {}, body=body)
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self._send(401, b"{}", **{"X-Error-Code": "RepoNotFound"})
        if hub.gated:
            return self._send(403, b"{}", **{"X-Error-Code": "GatedRepo"})
        if path.startswith("/api/models/"):
            return self._revision(path.removeprefix("/api/models/"))
        repository, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        commit = hub.branches.get(revision, revision)
        if repository != REPOSITORY or commit != hub.commit or not (hub.directory / name).is_file():
            return self._send(404, b"{}", **{"X-Error-Code": "EntryNotFound"})
        content = hub.content(name)
        facts = {"X-Repo-Commit": commit, "ETag": f'"{blob_id(content)}"'}
        if len(content) < LARGE_BYTES:
            return self._file(name, facts, body=body)
        digest = hashlib.sha256(content).hexdigest()
        facts |= {"X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{digest}"'}
        return self._send(302, b"", Location=f"{hub.cdn}/cdn/{name}", **facts)

    def _revision(self, rest: str) -> None:
        repository, _, revision = rest.partition("/revision/")
        if repository != REPOSITORY:
            return self._send(404, b"{}", **{"X-Error-Code": "RepoNotFound"})
        commit = self.hub.branches.get(revision, revision)
        if commit != self.hub.commit:
            return self._send(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
        files = sorted(path for path in self.hub.directory.rglob("*") if path.is_file())
        siblings = [self.hub.sibling(path) for path in files]
        model = {"id": REPOSITORY, "modelId": REPOSITORY, "sha": commit, "siblings": siblings}
        return self._send(200, json.dumps(model).encode())

    def _file(self, name: str, facts: dict[str, str], *, body: bool) -> None:
        content = self.hub.content(name)
        if name in self.hub.tampered:
            content = content[:-1] + bytes([content[-1] ^ 1])
        requested = self.headers.get("Range", "")
        status = 200
        if requested and self.hub.ranges:
            first, _, last = requested.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(int(last) + 1 if last else len(content), len(content))
            facts = {**facts, "Content-Range": f"bytes {begin}-{end - 1}/{len(content)}"}
            content, status = content[begin:end], 206
        cut = None
        if body and len(content) >= LARGE_BYTES and self.hub.cut_after:
            cut = self.hub.cut_after.pop(0)
        self._send(status, content, body=body, cut=cut, **{"Accept-Ranges": "bytes", **facts})

    def _send(
        self,
        status: int,
        content: bytes,
        *,
        body: bool = True,
        cut: int | None = None,
        **headers: str,
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not body or self.command == "HEAD":
            return
        sent = content if cut is None else content[:cut]
        if self.hub.pause_after is not None and len(content) > self.hub.pause_after:
            self.wfile.write(sent[: self.hub.pause_after])
            self.wfile.flush()
            self.hub.resumed.wait(PAUSE_SECONDS)
            sent = sent[self.hub.pause_after :]
        self.wfile.write(sent)
        self.hub.bytes_sent += len(sent)
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True


@contextmanager
def serving_hub(
    directory: Path, host: str = "127.0.0.1", certificate: tuple[Path, Path] | None = None
) -> Iterator[Hub]:
    """Serve a directory as the repository `REPOSITORY` on a free port while the block runs.

    On loopback large files come from another host, localhost, as the Hub's do: clients drop the
    token on the way. With a certificate and its key it speaks TLS.
    """
    hub = Hub(directory)
    handler = type("Handler", (_Handler,), {"hub": hub})
    with served_in_threads(handler, host, certificate) as hub.endpoint:
        hub.cdn = hub.endpoint if certificate else hub.endpoint.replace("127.0.0.1", "localhost")
        yield hub
