"""A builder in a process of its own that is killed when its log says some words."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mm_api.documents.build_result import BuildResult

BUILD_SECONDS = 240


def run_builder(
    arguments: Sequence[str],
    word: Path,
    *,
    environment: Mapping[str, str] | None = None,
    kill_at: str = "",
    seconds: float = BUILD_SECONDS,
) -> BuildResult | None:
    """Build; kill with SIGKILL at the first line of the log that has the words.

    Args:
        arguments: of mm-runtime.
        word: file of the termination message.
        environment: the builder's; None: this process's.
        kill_at: the words; empty: not killed.
        seconds: how long it may take once its log has ended.

    Returns:
        Its result; None when it was killed.
    """
    word.unlink(missing_ok=True)
    command = [sys.executable, "-m", "mm_runtime", *arguments, "--termination-log", str(word)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as builder:
        assert builder.stderr is not None
        for line in builder.stderr:
            if kill_at and kill_at in line:
                builder.kill()
        code = builder.wait(seconds)
    assert (code == -signal.SIGKILL) == bool(kill_at), f"{kill_at!r} never came, or was survived"
    return None if kill_at else BuildResult.from_json(word.read_bytes())
