"""Bearer tokens: whether a client may send requests at all, and under which name."""

import hmac
import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from mm_edge.errors import NotAuthenticatedError
from mm_edge.keys import Key, Keys, digest_of, read_keys

_log = logging.getLogger(__name__)

NO_KEY = ""
"""Name of each request where no token is required."""


class BearerAuth:
    """Compares tokens with those of a mounted Secret, one a line; two lines while one is replaced.

    The file is read for every request: the kubelet replaces it when the Secret changes.
    """

    def __init__(
        self,
        token_file: Path | None,
        observers: Sequence[Callable[[Collection[str]], None]] = (),
    ) -> None:
        """Take the file, and what is called with the names whenever it has changed."""
        self._token_file = token_file
        self._text = ""
        self._keys = Keys()
        self._observers = observers

    def check(self, authorization: str | None) -> str:
        """Return the name of a request's token; NotAuthenticatedError: none that is known."""
        if self._token_file is None:
            return NO_KEY
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAuthenticatedError(
                "You did not send a token. Send the header `Authorization: Bearer <token>`.",
                code="missing_api_key",
            )
        sent = digest_of(token.strip())
        # Every line is compared: time shows nothing about the tokens.
        names = [
            key.name
            for key in self._read(self._token_file)
            if hmac.compare_digest(sent, key.digest)
        ]
        if not names:
            raise NotAuthenticatedError("The token is not valid here.", code="invalid_api_key")
        return names[0]

    def _read(self, token_file: Path) -> tuple[Key, ...]:
        text = token_file.read_text(encoding="utf-8")
        if text != self._text:
            self._text, self._keys = text, read_keys(text)
            for problem in self._keys.problems:
                _log.warning("the tokens of gateway.authSecretRef: %s", problem)
            for observer in self._observers:
                observer(self._keys.names)
        return self._keys.known
