"""Steps of ours are forked from one process with torch imported: each is a process as before."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mm_runtime.backends import steps
from mm_runtime.base.child_process import ChildProcess
from mm_runtime.engine_build.forked_steps import ForkedSteps, shared_steps
from support.build_plans import build_plan
from support.documents import FACTS
from support.ended import wait_until_gone

PROBE = """
import os, sys
import numpy
print(os.getpid(), os.getppid(), os.getpgid(0), "torch" in sys.modules, flush=True)
exec(sys.argv[1])
"""
PLAN = build_plan(FACTS)
EVALUATION = next(step for step in steps(PLAN) if step.name == "evaluation")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("steps")
    (path / "probe.py").write_text(PROBE)
    return path


@pytest.fixture(scope="module")
def forks(folder: Path) -> Iterator[ForkedSteps]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with ForkedSteps(sys.executable, [EVALUATION] * 3, environment) as forks:
        yield forks


def started(forks: ForkedSteps, folder: Path, words: str) -> ChildProcess:
    argv = (sys.executable, "-m", "probe", words)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return ChildProcess(argv, environment, lambda _: None, forked=partial(forks.start, argv))


def test_a_step_is_a_child_with_an_end_of_its_own(forks: ForkedSteps, folder: Path) -> None:
    """Torch is there already: number, parent, group and exit code are those of a started one."""
    ended = started(forks, folder, "print('last', file=sys.stderr); sys.exit(7)")
    assert ended.wait(60) == 7
    assert ended.tail == [f"{ended.pid} {os.getpid()} {ended.pid} True", "last"]
    assert ended.peak_memory_bytes > 50 << 20

    sleeping = started(forks, folder, "import time; time.sleep(1000)")
    assert sleeping.wait(0.2) is None
    assert sleeping.stop(5) == 128 + signal.SIGTERM

    failed = started(forks, folder, "raise OSError('no')")
    assert (failed.wait(60), failed.tail[-1]) == (1, "OSError: no")


def test_a_step_starts_although_the_process_is_gone(folder: Path) -> None:
    """It imports for itself then."""
    with ForkedSteps("/bin/false", [EVALUATION], {}) as gone:
        child = started(gone, folder, "sys.exit(7)")
        assert child.wait(60) == 7
    assert child.tail == [f"{child.pid} {os.getpid()} {child.pid} False"]


def test_a_step_dies_with_a_killed_build(folder: Path) -> None:
    (folder / "build.py").write_text(
        "import os, sys, time\n"
        "from mm_runtime.base.child_process import ChildProcess\n"
        "from mm_runtime.engine_build.forked_steps import ForkedSteps\n"
        "from mm_runtime.backends import steps\n"
        "from support.build_plans import build_plan\n"
        "from support.documents import FACTS\n"
        "steps = [one for one in steps(build_plan(FACTS)) if one.name == 'export-vision']\n"
        "forks = ForkedSteps(sys.executable, steps, os.environ)\n"
        "argv = (sys.executable, '-m', 'probe', 'import time; time.sleep(1000)')\n"
        "start = lambda output: forks.start(argv, output)\n"
        "say = lambda line: print(line, flush=True)\n"
        "child = ChildProcess(argv, os.environ, say, forked=start)\n"
        "time.sleep(1000)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, str(folder / "build.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as build:
        assert build.stdout is not None
        child = int(build.stdout.readline().split()[0])
        build.kill()
    wait_until_gone(child)


def test_tools_and_code_of_checkpoints_share_nothing() -> None:
    own = steps(PLAN)
    assert [step.name for step in shared_steps(PLAN, own)] == ["export-vision", "evaluation"]
    trusted = PLAN.model_copy(update={"trust_remote_code": True})
    assert shared_steps(trusted, own) == []
    tool = replace(own[0], command=("trtllm-build",))
    assert shared_steps(PLAN, (*own, tool)) == []
    assert shared_steps(PLAN, (*own, replace(own[0], name="build-vision"))) == []
    assert shared_steps(PLAN, own[:-1]) == []
