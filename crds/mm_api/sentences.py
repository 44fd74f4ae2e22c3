"""Sentences that programs put together: parts that are joined, counts, articles."""

import re

_ENDS = " .;,:"

_SPOKEN_VOWEL = re.compile(
    r"[AEFHILMNORSX](?![a-z])|8|1[18](?!\d)|[aeioAEIO]|[uU](?!n[i]|s[ae]|RL)"
)
"""How a word begins that takes "an": letters that are spelled out (an H100, an L4, an RTX), eight,
eleven and eighteen, and vowels but the u of unit, use and URL."""


def joined(*parts: str) -> str:
    """Return parts of one sentence with semicolons between; only the last keeps its full stop.

    Lines of a log that follow a part's first line stay at the end, and the next part before them.
    """
    split = [part.partition("\n") for part in parts if part]
    last = split.pop() if split else ("", "", "")
    heads = [*(head.rstrip(_ENDS) for head, _, _ in split), last[0]]
    lines = [f"\n{tail}" for _, _, tail in (*split, last) if tail]
    return "; ".join(filter(None, heads)) + "".join(lines)


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 image`, `2 images`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def size(number: int) -> str:
    """Return bytes as a person reads them: `608 MiB`, `14.2 GiB`."""
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def a(noun: str) -> str:
    """Return a noun with its article: `a GPU`, `an H100`, `an image`."""
    return f"{'an' if _SPOKEN_VOWEL.match(noun) else 'a'} {noun}"
