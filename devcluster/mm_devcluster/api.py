"""A small client of the cluster's API, with nothing but the standard library.

``up`` and ``status`` need a handful of requests; this package must not depend on the client that
the operator uses.
"""

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

REQUEST_TIMEOUT = 10.0  # seconds
APPLY = "application/apply-patch+yaml"  # JSON is YAML, so manifests go as they are
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"


class ApiError(Exception):
    """The API server answered, and refused; or did not answer (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


def ready_path(without: Sequence[str] = ()) -> str:
    """Return where an API server says whether it is ready; `without`: checks left out."""
    query = "&".join(f"exclude={one}" for one in without)
    return f"/readyz?{query}" if query else "/readyz"


class Api:
    """Requests to one API server as the admin of a kubeconfig that ``up`` wrote."""

    def __init__(self, kubeconfig: Path) -> None:
        """Read server and certificates."""
        document = json.loads(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        user = document["users"][0]["user"]
        self._address = urlsplit(cluster["server"]).netloc
        self._tls = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        # load_cert_chain takes files only; the context keeps what it read.
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(base64.b64decode(user["client-certificate-data"]))
            pair.write(base64.b64decode(user["client-key-data"]))
            pair.flush()
            self._tls.load_cert_chain(pair.name)

    def get(self, path: str) -> dict[str, Any]:
        """Read one path."""
        return self._request("GET", path)

    def is_ready(self, *, without: Sequence[str] = ()) -> bool:
        """Return whether the API server says that it is ready; `without`: checks left out."""
        try:
            self._request("GET", ready_path(without))
        except ApiError:
            return False
        return True

    def patch(self, path: str, body: object, kind: str) -> dict[str, Any]:
        """Patch one object; ``kind`` is one of the patch types above."""
        return self._request("PATCH", path, body, kind)

    def apply(self, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Apply one manifest server-side, as its owner."""
        return self.patch(f"{path}?fieldManager=mm-devcluster&force=true", manifest, APPLY)

    def _request(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        connection = http.client.HTTPSConnection(
            self._address, timeout=REQUEST_TIMEOUT, context=self._tls
        )
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, str(error)) from error
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise ApiError(answer.status, text[:500])
        if not answer.headers.get("Content-Type", "").startswith("application/json"):
            return {}
        document: dict[str, Any] = json.loads(text)
        return document
