"""How long a server may take to start before the kubelet starts it again: by planned bytes."""

LEAST_START_SECONDS = 1800
"""What a small engine may take on a node that pulls images at the same time."""

MOST_START_SECONDS = 6 * 3600
"""The longest that is waited for."""

_FIXED_SECONDS = 600
"""Without what grows with the engine."""

_SLOW_BYTES = 20 * 10**6
"""A second of a slow store: 1 Gbit/s shared by five pods that start together."""


def start_seconds(host_bytes: int) -> int:
    needed = max(LEAST_START_SECONDS, _FIXED_SECONDS + -(-host_bytes // _SLOW_BYTES))
    return min(MOST_START_SECONDS, needed)
