"""Processes that are ended, and those that end a moment after what ended them."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from mm_runtime.launch.tritonserver import remove_regions
from support.eventually import eventually
from support.tied import tied

SECONDS = 60.0
_REGIONS = re.compile(r"shm-region-prefix-name=(\w+)")


def end(process: subprocess.Popen[bytes], seconds: float = SECONDS) -> None:
    """Send SIGTERM, and SIGKILL to what still runs after so many seconds; reap it."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(seconds)


@contextmanager
def logged(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        process = subprocess.Popen(tied(command), stdout=file, stderr=file, env=environment)
    try:
        yield process
    finally:
        end(process)


def kill_tree(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process with all that is below it, and remove the memory that servers shared.

    For servers at whose end no test looks: Triton takes seven seconds to unload its models.
    """
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    prefixes = set(_REGIONS.findall(" ".join(word for one in below for word in _words(one))))
    queues = {region for one in below for region in _queues(one)}
    process.kill()
    process.wait(SECONDS)
    for one in below:
        with suppress(psutil.NoSuchProcess):  # with its parent
            one.kill()
        wait_until_gone(one.pid)
    for prefix in prefixes:
        remove_regions(prefix)
    for region in queues:
        region.unlink(missing_ok=True)


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def _queues(process: psutil.Process) -> list[Path]:
    """Return regions of Python's shared memory that a process has: vLLM's queues, 400 MB."""
    with suppress(psutil.Error, OSError):
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        return [Path(name) for name in re.findall(r"/dev/shm/psm_\w+", maps)]
    return []


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or after
        return True


def wait_until_gone(pid: int) -> None:
    eventually(
        lambda: is_gone(pid),
        seconds=SECONDS,
        pause_seconds=0.02,
        showing=lambda: f"process {pid} still runs",
    )
