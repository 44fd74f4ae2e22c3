"""Run stages side by side, each as soon as those it needs are done. Knows no terminal."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum

Report = Callable[[str], None]
"""Receives what a stage waits for at the moment, in a few words."""


@dataclass(frozen=True)
class Stage:
    """One line of the progress display."""

    key: str
    title: str
    """What it does, for people."""
    work: Callable[[Report], str]
    """Does it; returns what was reached, in a few words."""
    needs: tuple[str, ...] = ()
    """Keys of the stages that must be done before."""


class State(StrEnum):
    """Where a stage stands."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Update:
    """Something to show: a stage changed its state, or says what it waits for."""

    key: str
    state: State
    detail: str
    seconds: float
    """Since the stage began; 0 for one that never ran."""


@dataclass(frozen=True)
class Failure:
    """A stage that failed, and why."""

    stage: Stage
    error: Exception


def check_graph(stages: Sequence[Stage]) -> None:
    """Refuse stages that could never all run.

    Raises:
        ValueError: A key occurs twice, a stage needs one that comes later or does not exist.
    """
    seen: set[str] = set()
    for stage in stages:
        if stage.key in seen:
            raise ValueError(f"two stages are called {stage.key!r}")
        missing = [need for need in stage.needs if need not in seen]
        if missing:
            raise ValueError(f"stage {stage.key!r} needs {missing[0]!r}, which is not before it")
        seen.add(stage.key)


def runnable(
    stages: Iterable[Stage], started: Collection[str], done: Collection[str]
) -> tuple[Stage, ...]:
    """Return the stages that may start now, in order."""
    return tuple(
        stage
        for stage in stages
        if stage.key not in started and all(need in done for need in stage.needs)
    )


def run_stages(stages: Sequence[Stage], show: Callable[[Update], None]) -> tuple[Failure, ...]:
    """Run all stages. After a failure nothing new starts; what runs is waited for.

    Args:
        stages: In an order in which each comes after those that it needs.
        show: Receives every change; called from several threads.

    Returns:
        What failed, first things first; empty when all is done.
    """
    check_graph(stages)
    done: set[str] = set()
    futures: dict[Future[str], Stage] = {}
    began: dict[str, float] = {}
    failures: list[Failure] = []
    with ThreadPoolExecutor(max_workers=len(stages)) as pool:
        while True:
            for stage in () if failures else runnable(stages, began, done):
                began[stage.key] = time.monotonic()
                show(Update(stage.key, State.RUNNING, "", 0.0))
                futures[pool.submit(stage.work, _reporter(stage.key, began, show))] = stage
            if not futures:
                break
            finished, _ = wait(futures, return_when=FIRST_COMPLETED)
            for future in finished:
                stage = futures.pop(future)
                seconds = time.monotonic() - began[stage.key]
                error = future.exception()
                if error is None:
                    done.add(stage.key)
                    show(Update(stage.key, State.DONE, future.result(), seconds))
                    continue
                if not isinstance(error, Exception):
                    raise error
                show(Update(stage.key, State.FAILED, _first_line(error), seconds))
                failures.append(Failure(stage, error))
    for stage in stages:
        if stage.key not in began:
            show(Update(stage.key, State.SKIPPED, "", 0.0))
    return tuple(failures)


def _reporter(key: str, began: dict[str, float], show: Callable[[Update], None]) -> Report:
    def report(detail: str) -> None:
        show(Update(key, State.RUNNING, detail, time.monotonic() - began[key]))

    return report


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
