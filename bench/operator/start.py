"""How long `mm-operator` takes from its start until it serves health and metrics.

    .venv/bin/python bench/operator/start.py --kubeconfig PATH [--starts 5]

Prints one JSON: seconds by the clock of each start, and the processor's seconds, which a busy
machine does not stretch.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

_DEADLINE_SECONDS = 120.0


def start(kubeconfig: str) -> tuple[float, float]:
    """Start an operator, wait for its first line, end it; return wall and CPU seconds."""
    command = [str(Path(sys.executable).parent / "mm-operator"), "run", "--port=0"]
    command += [f"--kubeconfig={kubeconfig}", "--runtime-image=localhost/none:none"]
    command += ["--lease-namespace=default", "--lease-name=bench-start", "--namespace=default"]
    began = time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "serving health and metrics" in line:
                    return time.monotonic() - began, _cpu_seconds(process.pid)
                if time.monotonic() - began > _DEADLINE_SECONDS:
                    break
        finally:
            process.kill()
    raise RuntimeError("the operator did not start; is the API server there?")


def _cpu_seconds(pid: int) -> float:
    """Return user and system seconds of a process, from fields 14 and 15 of its stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100  # ticks of 10 ms


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--starts", type=int, default=5)
    options = parser.parse_args()
    measured = [start(options.kubeconfig) for _ in range(options.starts)]
    seconds, cpu = zip(*measured, strict=True)
    result = {
        "seconds": sorted(round(one, 2) for one in seconds),
        "cpuSeconds": sorted(round(one, 2) for one in cpu),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
