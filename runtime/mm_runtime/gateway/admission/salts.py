"""PURE: which requests may learn from delays what others have sent: those of the same salt."""

import hashlib


def salt_of(key: str, given: str) -> str:
    """Return the salt of a request; empty: it shares with all others that have none.

    Clients of different keys share nothing, whatever they send: a salt that another client knows,
    or guesses, is not enough to find what its requests have left.
    """
    if not key:
        return given
    return hashlib.sha256(f"{key}\0{given}".encode()).hexdigest()
