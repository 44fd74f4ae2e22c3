"""PURE: which of several servers a key belongs to: always the same one, while it is there.

Rendezvous hashing (Thaler and Ravishankar, 1998): each pair of key and server has a weight, the
largest wins. A server that comes or goes moves only the keys that are its own.
"""

import hashlib
from collections.abc import Iterable


def order(key: bytes, servers: Iterable[str]) -> list[str]:
    return sorted(servers, key=lambda one: _weight(key, one), reverse=True)


def _weight(key: bytes, server: str) -> bytes:
    return hashlib.blake2b(server.encode(), key=key, digest_size=8).digest()
