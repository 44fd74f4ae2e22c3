"""Show the progress of stages: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from mm_devcluster.demo.graph import Stage, State, Update

QUIET_SECONDS = 5.0  # plain lines: details that change faster than this are not worth a line
REFRESHES_PER_SECOND = 4  # each redraw costs about a millisecond of the two cores


@contextmanager
def shown(stages: Sequence[Stage], console: Console) -> Iterator[Callable[[Update], None]]:
    """Yield what shows a change, from any thread: in a live table on a terminal, else in lines."""
    if not console.is_terminal:
        yield PlainLines(stages).show
        return
    table = LiveTable(stages)
    with Live(
        console=console,
        get_renderable=table.drawn,
        refresh_per_second=REFRESHES_PER_SECOND,
    ):
        yield table.show


class PlainLines:
    """One line when a stage begins, one when it ends, some in between; for logs."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        """Remember the titles."""
        self._titles = {stage.key: stage.title for stage in stages}
        self._began = time.monotonic()
        self._said: dict[str, tuple[str, float]] = {}
        self._lock = Lock()

    def show(self, update: Update) -> None:
        """Write a line, unless it would only repeat what was said a moment ago."""
        with self._lock:
            now = time.monotonic() - self._began
            said, when = self._said.get(update.key, (None, 0.0))
            is_detail = update.state is State.RUNNING and said is not None
            if is_detail and (update.detail == said or now - when < QUIET_SECONDS):
                return
            if update.state is State.SKIPPED:
                return
            self._said[update.key] = (update.detail, now)
            took = f" ({update.seconds:.1f} s)" if update.state is State.DONE else ""
            detail = f": {update.detail}" if update.detail else ""
            word = {State.DONE: "done   ", State.FAILED: "FAILED "}.get(update.state, "       ")
            print(f"[{now:6.1f} s] {word}{self._titles[update.key]}{took}{detail}", flush=True)


class LiveTable:
    """One row a stage: mark, title, elapsed time, what it waits for or what was reached."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        """Start with every stage waiting."""
        self._stages = stages
        self._updates = {stage.key: Update(stage.key, State.WAITING, "", 0.0) for stage in stages}
        self._began: dict[str, float] = {}
        self._spinner = Spinner("dots", style="cyan")

    def show(self, update: Update) -> None:
        """Change the row of a stage; the next redraw shows it."""
        self._began.setdefault(update.key, time.monotonic())
        self._updates[update.key] = update

    def drawn(self) -> Table:
        """Return the table as it is now."""
        # A ratio: the last column has what the others leave. Without one Rich cuts all columns
        # alike where the terminal is narrow, and times are the first to go.
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", width=8, no_wrap=True)
        table.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
        for stage in self._stages:
            update = self._updates[stage.key]
            table.add_row(
                self._mark(update),
                Text(stage.title, style="" if update.state is not State.WAITING else "dim"),
                self._elapsed(update),
                Text(
                    update.detail or self._waits_for(stage, update),
                    style="red" if update.state is State.FAILED else "dim",
                ),
            )
        return table

    def _mark(self, update: Update) -> Text | Spinner:
        marks = {
            State.WAITING: Text("·", style="dim"),
            State.DONE: Text("✓", style="green"),
            State.FAILED: Text("✗", style="red"),
            State.SKIPPED: Text("-", style="dim"),
        }
        return marks.get(update.state, self._spinner)

    def _elapsed(self, update: Update) -> str:
        if update.state in {State.WAITING, State.SKIPPED}:
            return ""
        running = update.state is State.RUNNING
        seconds = time.monotonic() - self._began[update.key] if running else update.seconds
        return f"{seconds:.1f} s"

    def _waits_for(self, stage: Stage, update: Update) -> str:
        if update.state is not State.WAITING:
            return ""
        open_needs = [
            other.title
            for other in self._stages
            if other.key in stage.needs and self._updates[other.key].state is not State.DONE
        ]
        return f"waits for: {', '.join(open_needs)}" if open_needs else ""


def make_console() -> Console:
    """Return the console of this process; progress goes to standard output."""
    return Console(file=sys.stdout, highlight=False)
