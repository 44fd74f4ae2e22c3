"""A mounted Secret's text -> bearer tokens and their names. Reads no file and compares nothing."""

import re
from dataclasses import dataclass
from hashlib import sha256

from mm_api.documents.serving_plan import KEY_NAME_PATTERN

UNNAMED = "unnamed"
"""Name of all tokens that stand alone on their lines."""

MOST_KEYS = 256
"""Lines that count: each is compared with each token that comes, and each name is a label."""

_NAME = re.compile(KEY_NAME_PATTERN, re.ASCII)


@dataclass(frozen=True, slots=True)
class Key:
    """One token, by its digest, and the name it counts under."""

    name: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Keys:
    """The tokens of one text.

    Attributes:
        known: tokens that let a request in.
        problems: lines that let none in, and why; never what stands in them.
    """

    known: tuple[Key, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(key.name for key in self.known)


def read_keys(text: str) -> Keys:
    """Return the tokens of a text: a line is `NAME: TOKEN`, or a token alone, which has no name.

    A name may have several lines, while its token is replaced.
    """
    known: list[Key] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if len(known) == MOST_KEYS:
            problems.append(
                f"line {number} and those after it: at most {MOST_KEYS} tokens are read; remove "
                "some"
            )
            break
        found = _read(line.strip())
        if isinstance(found, Key):
            known.append(found)
        else:
            problems.append(f"line {number}: {found}")
    return Keys(tuple(known), tuple(problems))


def digest_of(token: str) -> bytes:
    """Return what tokens are compared by: digests have one length."""
    return sha256(token.encode("utf-8", errors="surrogateescape")).digest()


def _read(line: str) -> Key | str:
    """Return the token of a line, or what is wrong with it."""
    name, colon, rest = line.partition(":")
    if not colon or (rest and not rest[0].isspace()):
        return Key(UNNAMED, digest_of(line))  # tokens may have colons, but no spaces
    if not _NAME.fullmatch(name):
        return (
            "the text before the colon is not a name: expected up to 63 letters, digits, '-', "
            "'_' and '.'"
        )
    if not rest.strip():
        return "there is a name and no token: write NAME: TOKEN"
    return Key(name, digest_of(rest.strip()))
