"""Writes a measurement: what was run, on what, and what came out."""

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def write(target: Path, command: str, load_before: float, result: Mapping[str, object]) -> None:
    """Write and print a result.

    Args:
        target: the file.
        command: what makes it again, from the repository's root.
        load_before: processes that wanted a core in the minute before: others disturb.
        result: numbers with units in their names.
    """
    document = {
        "command": command,
        "machine": {
            "cores": os.cpu_count(),
            "load_before": round(load_before, 1),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        **result,
    }
    text = json.dumps(document, indent=1)
    target.write_text(text + "\n")
    print(text)
