"""Queries the python3 of TensorRT-LLM's programs for what is installed beside them.

It need not be the python3 that runs this: in NVIDIA's images it is the system's.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata

log = logging.getLogger(__name__)

QUERY_SECONDS = 60.0
"""For one question to a tool: nvidia-smi needs some seconds without its daemon."""

VERSIONED = ("tensorrt_llm", "tensorrt", "torch", "transformers")

_VERSIONS = """
import json, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
"""Reading metadata takes 0.1 s; importing tensorrt_llm takes many seconds."""


def tool_versions(python: str = "python3", packages: Sequence[str] = VERSIONED) -> dict[str, str]:
    """Return package -> version, for those that are installed beside an interpreter."""
    if python == sys.executable:
        return {one: found for one in packages if (found := _own_version(one))}
    answer = query([python, "-c", _VERSIONS, *packages])
    return dict(json.loads(answer)) if answer else {}


def _own_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def query(argv: Sequence[str]) -> str | None:
    """Return what a program prints, None when it fails."""
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=QUERY_SECONDS, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("%s: %s", argv[0], error)
        return None
    return done.stdout.strip()
