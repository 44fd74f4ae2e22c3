"""How much an answer of Prometheus may be, by what was requested, and its parsing. Pure.

Parsing holds the interpreter's lock from the first byte to the last, in whatever thread it runs, so
the bound on bytes is the bound on how long the loop that renews the Lease stands still.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from mm_operator.scaling.answers import MetricsError

PODS_OF_A_QUERY = 100
"""An answer about them has at most 864 KiB: about 10 ms of parsing."""

_BASE_BYTES = 64 * 1024
"""For what frames an answer, a text of an error, and the one number of a query of the user's."""

_POD_BYTES = 8 * 1024
"""Twice what the combined query answers for a pod with long names, 24 samples of 170 bytes."""

_SAMPLES_OF_A_POD = 64
"""Above the buckets of any histogram of ours and the parts of the combined query."""

_BRACKETS_OF_A_SAMPLE = 3
"""Brackets of the sample, of its labels, and of its pair of time and value."""

_COMMAS_OF_A_SAMPLE = 8
"""Three labels, the pair and the next sample take five."""

T = TypeVar("T")


def most_bytes(pods: int) -> int:
    """Return the most that an answer about so many pods may have."""
    return _BASE_BYTES + _POD_BYTES * pods


def chunks(many: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(many), PODS_OF_A_QUERY):
        yield many[first : first + PODS_OF_A_QUERY]


def parse(body: bytes, pods: int) -> Any:
    """Return the document of an answer about so many pods.

    Brackets and commas are counted first: empty lists take thirty times their bytes.

    Raises:
        MetricsError: more elements than were requested.
        ValueError: no JSON.
        RecursionError: nested too deeply to be an answer.
    """
    samples = _SAMPLES_OF_A_POD * (pods + 1)
    brackets = body.count(b"[") + body.count(b"{")
    if brackets > _BRACKETS_OF_A_SAMPLE * samples or (
        body.count(b",") > _COMMAS_OF_A_SAMPLE * samples
    ):
        raise MetricsError("an answer has more elements than were requested")
    return json.loads(body)
