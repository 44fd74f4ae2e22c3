"""Steps of a build in forks of this process: real processes that need not import everything again.

A step of ours imports for a sixth of a second and a recorded tool for a twentieth; a test that is
not about processes builds with what this process has imported. Log, exit code, deadline, folder
and environment are a process's own in a fork as well. Steps that import torch are started as ever:
its threads do not survive a fork.

Files of tests request it: `pytestmark = pytest.mark.usefixtures("quick_builds")`.
"""

import importlib.util
import os
import runpy
import shutil
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mm_runtime.base.child_process import ChildProcess
from mm_runtime.engine_build.step import COMMANDS
from support.fork import Fork
from support.trtllm_tools.install import LAUNCHER

if TYPE_CHECKING:
    from subprocess import Popen

LIGHT = frozenset({"check_tools", "fetch", "fetch_adapters", "processor", "verify_engines"})
"""Modules of steps that import nothing with threads of its own."""
SHEBANG = LAUNCHER.partition("{")[0].encode()
"""What recorded tools begin with; a test's own programs do not."""


class ForkedStep(ChildProcess):
    """A step that is forked where it can be, and started where it cannot."""

    def _started(
        self, argv: Sequence[str], env: Mapping[str, str], folder: Path | None, output: int
    ) -> "Fork | Popen[bytes]":
        run = _forkable(argv, env, folder)
        if run is None:
            return super()._started(argv, env, folder, output)
        return Fork(partial(_live, run, env, folder), output)


def _forkable(
    argv: Sequence[str], env: Mapping[str, str], folder: Path | None
) -> Callable[[], None] | None:
    """Return what runs a command line in a fork; None: it needs more."""
    if argv[1] == "-m":
        package, _, name = argv[2].rpartition(".")
        light = (argv[0], package) == (sys.executable, COMMANDS) and name in LIGHT
        return partial(_run_module, argv[2:]) if light else None
    words = argv[1:] if argv[0] == "python3" else argv
    program = words[0] if words is not argv else shutil.which(words[0], path=env["PATH"])
    path = (folder or Path()) / (program or "")
    is_recorded = path.is_file() and path.read_bytes().startswith(SHEBANG)
    return partial(_run_program, path, words) if is_recorded else None


def _run_program(path: Path, words: Sequence[str]) -> None:
    sys.argv = list(words)
    runpy.run_path(str(path), run_name="__main__")


def _run_module(words: Sequence[str]) -> None:
    sys.argv = list(words)
    specification = importlib.util.find_spec(words[0])
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(specification.loader.get_code(words[0]), main.__dict__)  # noqa: S102


def _live(run: Callable[[], None], env: Mapping[str, str], folder: Path | None) -> None:
    os.environ.clear()
    os.environ.update(env)
    if folder:
        os.chdir(folder)
    run()
