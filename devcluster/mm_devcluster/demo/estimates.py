"""How far a run is, and what is left of it: by the last run here, or by what was recorded."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mm_devcluster.binaries import NODE, is_built
from mm_devcluster.demo.graph import Stage, State, Update
from mm_devcluster.errors import DevClusterError
from mm_devcluster.paths import cache_dir

RECORDED: Final = {
    "programs": 420.0,
    "base": 25.0,
    "operator-image": 20.0,
    "runtime-image": 150.0,
    "vllm-image": 200.0,
    "operator": 2.0,
    "runtime": 25.0,
    "vllm": 25.0,
}
"""Seconds of a first run on two idle cores, where a later one finds its caches."""
USUAL: Final = {
    "cluster": 3.0,
    "helm": 3.0,
    "upload": 5.0,
    "inspect": 5.0,
    "build": 10.0,
    "rollout": 6.0,
}
"""Seconds of any run; a stage without a number takes one."""


class Progress:
    """What was said of each stage, and how long the rest takes."""

    def __init__(self, stages: Sequence[Stage], expected: Mapping[str, float]) -> None:
        self.stages, self._expected = stages, expected
        self._since: dict[str, float] = {}
        self.updates = {stage.key: Update(stage.key, State.WAITING, "", 0.0) for stage in stages}

    def note(self, update: Update) -> None:
        """Remember the newest state of a stage."""
        self._since.setdefault(update.key, time.monotonic())
        self.updates[update.key] = update

    def title(self, key: str) -> str:
        return next(stage.title for stage in self.stages if stage.key == key)

    def running_seconds(self, key: str) -> float:
        """Return how long a stage has been running."""
        return time.monotonic() - self._since[key]

    def line(self) -> str:
        """Return one line: how many stages are done, what is left, and what runs."""
        done = sum(one.state is State.DONE for one in self.updates.values())
        running = [one for one in self.stages if self.updates[one.key].state is State.RUNNING]
        words = []
        for stage in running:
            detail = self.updates[stage.key].detail
            seconds = f" {self.running_seconds(stage.key):.0f} s"
            words.append(f"{stage.title.strip()}{seconds}{f' ({detail})' if detail else ''}")
        return (
            f"{done} of {len(self.stages)} done, about {said(self.seconds_left())} left: "
            f"{', '.join(words)}"
        )

    def seconds_left(self) -> float:
        """Return the longest way through what is not done."""
        rest: dict[str, float] = {}
        for stage in self.stages:  # each comes after those that it needs
            state = self.updates[stage.key].state
            own = self._expected.get(stage.key, 1.0)
            if state is State.RUNNING:
                own = max(own - self.running_seconds(stage.key), 0.0)
            before = max((rest[need] for need in stage.needs), default=0.0)
            rest[stage.key] = 0.0 if state is State.DONE else before + own
        return max(rest.values(), default=0.0)


def expected_seconds() -> tuple[str, dict[str, float]]:
    """Return which kind of run this is, and the seconds of each stage in the last of its kind."""
    try:
        kind = "next" if all(map(is_built, NODE)) else "first"
    except DevClusterError:  # no Go: the run will say so
        kind = "first"
    recorded = RECORDED if kind == "first" else {}
    return kind, {**USUAL, **recorded, **_read(_file()).get(kind, {})}


def keep(kind: str, progress: Progress) -> None:
    """Write what the stages took, for the next run of this kind."""
    done = (one for one in progress.updates.values() if one.state is State.DONE)
    took = {one.key: round(one.seconds, 1) for one in done}
    kept = _read(_file())
    kept[kind] = {**kept.get(kind, {}), **took}
    with suppress(OSError):
        _file().write_text(json.dumps(kept, indent=1))


def said(seconds: float) -> str:
    """Return a length of time as people say it."""
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"  # noqa: PLR2004


def _file() -> Path:
    return cache_dir() / "demo-seconds.json"


def _read(path: Path) -> dict[str, dict[str, float]]:
    try:
        kept: dict[str, dict[str, float]] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return kept
