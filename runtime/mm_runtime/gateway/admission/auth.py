"""Bearer tokens: whether a client may send requests at all."""

import hmac
from hashlib import sha256
from pathlib import Path

from mm_runtime.gateway.errors import NotAuthenticatedError


class BearerAuth:
    """Compares tokens with those of a mounted Secret, one a line; two lines while one is replaced.

    The file is read for every request: the kubelet replaces it when the Secret changes.
    """

    def __init__(self, token_file: Path | None) -> None:
        self._token_file = token_file

    def check(self, authorization: str | None) -> None:
        """Let a request pass.

        Raises:
            NotAuthenticatedError: there are tokens, and none of them was sent.
        """
        if self._token_file is None:
            return
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAuthenticatedError(
                "You did not send a token. Send the header `Authorization: Bearer <token>`.",
                code="missing_api_key",
            )
        sent = _digest(token.strip())
        lines = self._token_file.read_text(encoding="utf-8").splitlines()
        known = [_digest(line.strip()) for line in lines if line.strip()]
        # Digests have one length and every line is compared: time shows nothing about the tokens.
        if not any([hmac.compare_digest(sent, digest) for digest in known]):  # noqa: C419 - see above
            raise NotAuthenticatedError("The token is not valid here.", code="invalid_api_key")


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", errors="surrogateescape")).digest()
