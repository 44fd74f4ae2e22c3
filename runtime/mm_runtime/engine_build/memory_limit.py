"""How much memory the kernel lets this container have."""

from pathlib import Path

_FILES = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files of cgroup v2 and v1, as a container sees its own."""


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return the limit in bytes; None where there is none that this process can see."""
    for name in _FILES:
        try:
            text = (root / name).read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdecimal() else None  # `max`
    return None
