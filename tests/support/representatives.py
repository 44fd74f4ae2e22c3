"""Parameters of which some run in every run, and the others with the slow tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def others_are_slow(values: Iterable[str], *always: str) -> list[Any]:
    """Return all values as parameters; those that are not in `always` are marked slow.

    For tests of which each case takes seconds and whose way is the same for many values.
    """
    known = list(values)
    if unknown := set(always) - set(known):
        raise ValueError(f"not among the values: {', '.join(sorted(unknown))}")
    return [
        value if value in always else pytest.param(value, marks=pytest.mark.slow) for value in known
    ]
