"""Writes a measurement: what was run, on which machine with which versions, and what came out."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "transformers", "numpy", "nvidia-pytriton", "onnxruntime", "tensorrt", "vllm")

sys.path += [str(ROOT / "tests")]


def machine() -> dict[str, object]:
    """Return GPU, driver and processor; "none" where there is no GPU."""
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        found = "none"
    return {"gpu": found, "cores": os.cpu_count(), "kernel": platform.release()}


def processes_on_gpu() -> dict[int, int]:
    """Return process id -> bytes by the driver; none where there is no driver."""
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
    except FileNotFoundError:
        return {}
    rows = (line.split(",") for line in said.splitlines() if line.strip())
    return {int(pid): int(used) << 20 for pid, used in rows}


def versions() -> dict[str, str]:
    """Return the version of each package that computes or serves."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


def write(target: Path, command: str, result: Mapping[str, object]) -> None:
    """Write and print a result.

    Args:
        target: the file.
        command: what makes it again, from the repository's root.
        result: numbers with units in their names.
    """
    document = {"command": command, "machine": machine(), "versions": versions(), **result}
    text = json.dumps(document, indent=1)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")
    print(text)
