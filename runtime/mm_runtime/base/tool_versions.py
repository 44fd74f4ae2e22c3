"""Queries the python3 of TensorRT-LLM's programs for what is installed beside them.

It need not be the python3 that runs this: in NVIDIA's images it is the system's.
"""

import json
import logging
import subprocess
from collections.abc import Sequence

log = logging.getLogger(__name__)

QUERY_SECONDS = 60.0
"""For one question to a tool: nvidia-smi needs some seconds without its daemon."""

VERSIONED = ("tensorrt_llm", "tensorrt", "torch", "transformers")

INSTALLED = """
from importlib import metadata
def installed(names):
    found = {}
    for name in names:
        for one in (name, name + "-cu12", name + "-cu13"):
            try:
                found.setdefault(name, metadata.version(one))
            except metadata.PackageNotFoundError:
                pass
    return found
"""
"""For any interpreter: package -> version. NVIDIA's may be there under the name for one CUDA alone
(`tensorrt-cu12`). Reading metadata takes 0.1 s; importing tensorrt_llm takes many seconds."""

_VERSIONS = f"""{INSTALLED}
import json, sys
print(json.dumps(installed(sys.argv[1:])))
"""


def tool_versions(python: str = "python3", packages: Sequence[str] = VERSIONED) -> dict[str, str]:
    """Return package -> version, for those that are installed beside an interpreter."""
    answer = query([python, "-c", _VERSIONS, *packages])
    return dict(json.loads(answer)) if answer else {}


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
