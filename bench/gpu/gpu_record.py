"""Writes a measurement: what was run, on which machine with which versions, and what came out."""

import json
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "transformers", "numpy", "nvidia-pytriton", "onnxruntime", "tensorrt", "vllm")

sys.path += [str(ROOT / "tests")]


def driver(*query: str) -> list[str]:
    """Return the lines of nvidia-smi, without a head; `query`: its options, such as --query-gpu=.

    Raises:
        OSError, subprocess.SubprocessError: there is no driver, or it does not answer.
    """
    said = subprocess.run(
        ["nvidia-smi", *query], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    return [line for line in said.splitlines() if line.strip()]


def machine() -> dict[str, object]:
    """Return GPUs, driver and processor; "none" where there is no GPU."""
    try:
        each = driver("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    except (OSError, subprocess.SubprocessError):
        each = []
    kinds = [f"{count} x {kind}" if count > 1 else kind for kind, count in Counter(each).items()]
    found = "; ".join(kinds) or "none"
    return {"gpu": found, "cores": os.cpu_count(), "kernel": platform.release()}


def processes_on_gpu() -> dict[int, int]:
    """Return process id -> bytes by the driver; none where there is no driver."""
    try:
        rows = driver("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
    except FileNotFoundError:
        return {}
    pairs = (row.split(",") for row in rows)  # [N/A] of one that is about to end
    return {int(pid): int(used) << 20 for pid, used in pairs if used.strip().isdigit()}


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
