"""Messages of others as a condition quotes them: without what is another text at each try.

Kubelets, registries, schedulers and servers put ports, addresses, ids and times into what they say.
A condition that repeats those is another status each time, and a status is a write.
"""

import re
from typing import Final

_ADDRESS = r"(?:\[[0-9a-fA-F:.%]+\]|\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SECONDS = r"(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|s)\b|\d+m(?:in)?\b"

_LEFT_OUT: Final = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        # What glog and others write before a line: time, thread, place.
        (r"(?m)^[EWIF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\] ", ""),
        (r"(?m)^\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]? ", ""),
        # Go's net.OpError: the ends of a connection. The host's name is elsewhere in the text.
        (rf"\b((?:dial|read|write) (?:tcp|udp)[46]?) {_ADDRESS}(?:->{_ADDRESS})?", r"\1"),
        (rf"\b(lookup [-.\w]+) on {_ADDRESS}", r"\1"),
        # Tokens, signatures and time-outs of a request.
        (r"(https?://[^\s\"'?]+)\?[^\s\"']*?(?=:?(?:[\s\"']|$))", r"\1"),
        # The kubelet's pause and its pod's id.
        (rf"\b([Bb]ack-off) (?:{_SECONDS}) ", r"\1 "),
        (rf" pod=\S+\({_UUID}\)", ""),
        (r'\b(pods|ReplicaSet) "[^"]*" ', r"\1 "),
        (
            rf"\b((?:retry|try again|retry-after|retrying)(?: (?:in|after))?:?) (?:{_SECONDS})",
            r"\1",
        ),
        (r"\b(current time) \S+", r"\1"),
        (r"(?i)\b(request[ -]?id:?) [-\w]+", r"\1 ..."),
        (r"\b(containerd-mount)\d+", r"\1..."),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,}(?:Z|[+-]\d\d:\d\d)?", "..."),
        (rf"{_UUID}(?:_\d+\b)?", "..."),
        (r"(?<![:\w])[0-9a-f]{64}\b", "..."),
        # What the scheduler would win by preempting is nothing whenever it says so.
        (r"\.? preemption: .*", ""),
    )
)


def steady(text: str) -> str:
    """Return a message less ports, addresses, ids, times and pauses; names and counts stay."""
    for pattern, instead in _LEFT_OUT:
        text = pattern.sub(instead, text)
    before, _, last = text.rpartition(". ")
    # The scheduler ends some of its sentences twice: `not found. not found`.
    return before if last and before.endswith(last.rstrip(".")) else text
