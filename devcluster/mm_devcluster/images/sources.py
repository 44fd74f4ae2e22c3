"""What images are made from: places in this repository, places in an image, the pinned uv."""

import subprocess
from pathlib import Path

from mm_devcluster.errors import DevClusterError

ROOT = Path(__file__).resolve().parents[3]
"""The repository: images are built from a checkout, never from an installed wheel."""

PYTHON = "/usr/bin/python3.11"
"""Debian's interpreter, here and in the image: Triton's stub embeds its shared library."""
VENV = "/opt/multimodal/venv"
SITE_PACKAGES = f"{VENV}/lib/python3.11/site-packages"
LIBRARY = "/opt/multimodal/lib"
"""Our own packages, reached through a .pth file in the venv."""
USER = 65532
"""The user of every container: the number that distroless images made customary for nonroot."""

UV_TIMEOUT = 300.0  # seconds; one wheel of 25 MB


def find_uv() -> Path:
    """Return the pinned uv, which the set-up script installs when the cache was emptied.

    Raises:
        DevClusterError: It could not be installed.
    """
    done = subprocess.run(
        ["bash", "-c", 'source tools/uv.sh >&2 && printf %s "$UV"'],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=UV_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise DevClusterError(f"uv is missing and could not be installed:\n{done.stderr[-1500:]}")
    return Path(done.stdout)


def run_step(what: str, command: list[str], *, timeout: float, environment: dict[str, str]) -> None:
    """Run one program of an image build.

    Args:
        what: The step, for the error message.
        command: Program and arguments.
        timeout: Seconds.
        environment: The complete environment of the program.

    Raises:
        DevClusterError: It failed or took too long; the end of its output is in the message.
    """
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DevClusterError(f"{what}: not done after {timeout:.0f} s: {command[0]}") from error
    if done.returncode:
        raise DevClusterError(
            f"{what} failed (exit {done.returncode}) running {command[0]}:\n{done.stdout[-2000:]}"
        )
