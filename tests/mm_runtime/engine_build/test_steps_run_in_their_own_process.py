"""A step's process is bounded: time, log, memory, and it never outlives the build."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason, BuildResult
from mm_api.documents.engine_manifest import StepRecord
from mm_runtime.backends import steps
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.journal import Journal
from mm_runtime.engine_build.progress import Progress, percent_in, total_bytes_in
from mm_runtime.engine_build.run import BuildOptions, build
from mm_runtime.engine_build.runner import LOG_BYTES, StepFailedError, StepRunner
from mm_runtime.engine_build.step import Step
from support.build_plans import build_plan
from support.build_sites import Site
from support.cases import cases
from support.documents import FACTS
from support.ended import wait_until_gone


@pytest.fixture
def runner(site: Site) -> StepRunner:
    site.paths.logs.mkdir(parents=True)
    return StepRunner(site.source, site.paths, 30, StopSignal(), Progress(None, "a" * 64))


class Program(Step):
    """A step that is a shell script."""

    def argv(self, *_: object) -> tuple[str, ...]:
        return ("/bin/sh", "-c", self.purpose)


def script(text: str) -> Step:
    return Program(
        name="script",
        module="",
        purpose=text,
        inputs=(),
        outputs=("out",),
        permanent_reason=BuildReason.STEP_FAILED,
        fingerprint="0",
    )


def test_steps_that_read_weights_run_beside_torch(site: Site, tmp_path: Path) -> None:
    """Fetching needs clients of servers, everything else the interpreter that holds torch."""
    interpreters = [tmp_path / name for name in ("own", "engine")]
    for one in interpreters:
        one.write_text(f"#!/bin/sh\necho {one.name} $2\n")
        one.chmod(0o755)
    site.paths.logs.mkdir(parents=True)
    own, engine = map(str, interpreters)
    progress = Progress(None, "a" * 64)
    runner = StepRunner(
        str(site.source), site.paths, 30, StopSignal(), progress, python=engine, own_python=own
    )
    chosen = steps(build_plan(FACTS))

    for step in chosen:
        runner.run(step)
    runner.write_reproduce_script(chosen)

    said = [
        (site.paths.logs / f"{step.name}.log").read_text().splitlines()[1].split()[0]
        for step in chosen
    ]
    again = [
        line.rpartition("&& ")[2].split()[0]
        for line in site.paths.reproduce.read_text().splitlines()
        if " -m " in line
    ]
    assert said[0] == "own"
    assert set(said[1:]) == {"engine"}
    assert again == [own, *[engine] * (len(chosen) - 1)]


def test_success_is_measured(runner: StepRunner) -> None:
    record = runner.run(script("sleep 0.1"))
    assert record.seconds >= 0.1
    assert record.peak_memory_bytes > 100_000


@cases(
    "text code words",
    {
        "exit-code": ("echo first; echo last >&2; exit 7", 7, "last"),
        "killed": ("kill -9 $$", 137, "out of memory"),
        "crashed": ("kill -11 $$", 139, "ended by signal 11"),
        "silent": ("exit 1", 1, "and no output"),
        "first-error": ("echo OSError: no; seq 50; exit 1", 1, "OSError: no"),
        "our-report": ("echo OSError: no; echo report; exit 3", 3, "report"),
    },
)
def test_failures_say_how(runner: StepRunner, text: str, code: int, words: str) -> None:
    with pytest.raises(StepFailedError) as caught:
        runner.run(script(text))
    assert code == caught.value.exit_code
    assert words in caught.value.message


def test_deadline_ends_a_step_with_its_children(site: Site) -> None:
    site.paths.logs.mkdir(parents=True)
    runner = StepRunner(site.source, site.paths, 3, StopSignal(), Progress(None, "a" * 64))
    with pytest.raises(StepFailedError) as caught:
        runner.run(script("sleep 1000 & echo $!; wait"))
    assert caught.value.exit_code == 124
    wait_until_gone(int(caught.value.log_tail[-1]))


def test_log_is_bounded(runner: StepRunner) -> None:
    runner.run(script("yes 0123456789012345678901234567890123456789 | head -c 3000000"))
    size = (runner.paths.logs / "script.log").stat().st_size
    assert LOG_BYTES // 2 < size <= LOG_BYTES + 100


def test_stop_signal_becomes_a_result(site: Site) -> None:
    """SIGTERM in a step ends it and the build says so: it is worth another try."""
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        options = BuildOptions(site.plan, str(site.source), site.store, steps=steps)
        result, code = build(options, stop)
    assert code == ExitCode.TERMINATED
    assert result.failure is not None
    assert result.failure.retryable
    assert "stopped by SIGTERM" in result.failure.message


def test_a_killed_build_left_word_of_its_step(site: Site, tmp_path: Path) -> None:
    """What ends the entire container leaves no time to write: step and last lines are there before.

    That the build is gone for good is the exit code's to report, so the report names none.
    """
    word = tmp_path / "termination-log"
    command = [sys.executable, "-m", "mm_runtime", *site.arguments, "--termination-log", str(word)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        assert running.stdout is not None
        while b"[fetch]" not in running.stdout.readline():
            pass
        running.kill()
    failure = BuildResult.from_json(word.read_bytes()).failure
    assert failure is not None
    assert (failure.step, failure.exit_code, failure.retryable) == ("fetch", None, True)
    assert "mm_runtime.engine_build.commands.fetch" in failure.log_tail[0]


def test_step_dies_with_a_killed_build(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(
        "import os, sys, time\n"
        "from mm_runtime.base.child_process import ChildProcess\n"
        "started = lambda line: print(line, flush=True)\n"
        "command = ['sh', '-c', 'echo $$; exec sleep 1000']\n"
        "child = ChildProcess(command, os.environ, started)\n"
        "time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    wait_until_gone(child)


@cases(
    "damage",
    {"missing": lambda path: path.unlink(), "changed": lambda path: path.write_text("other")},
)
def test_journal_only_trusts_intact_outputs(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    step = script("")
    output = tmp_path / "out" / "file"
    output.parent.mkdir()
    output.write_text("content")
    record = StepRecord(name="script", seconds=1, peak_memory_bytes=1)
    Journal(tmp_path / "journal.json").add(step, record)
    assert record == Journal(tmp_path / "journal.json").finished(step)
    damage(output)
    assert Journal(tmp_path / "journal.json").finished(step) is None


def test_unreadable_journal_is_empty(tmp_path: Path) -> None:
    """A journal cut by a full disk costs time, not the build."""
    (tmp_path / "journal.json").write_text('{"entries": [{')
    assert Journal(tmp_path / "journal.json").finished(script("")) is None


@cases(
    "line expected",
    {
        "bar": ("Loading: 45%|####      | 9/20", 45),
        "last-counts": ("first 10 % then 99.7 %", 99),
        "none": ("step 3 of 7", None),
        "more-than-all": ("cpu 250%", None),
    },
)
def test_percentages_are_read(line: str, expected: int | None) -> None:
    assert expected == percent_in(line)


@cases(
    "line expected",
    {"moved": ("512 of 13000 MiB, 3 %", 13000 << 20), "no-bytes": ("step 3 of 7, 40 %", None)},
)
def test_bytes_are_read(line: str, expected: int | None) -> None:
    assert expected == total_bytes_in(line)
