"""Show the progress of stages: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from mm_devcluster.demo.estimates import Progress
from mm_devcluster.demo.graph import Stage, State, Update

TICK_SECONDS = 15.0
COLUMNS = 80  # of a line of a log; details are cut
REFRESHES_PER_SECOND = 4  # each redraw costs about a millisecond of the two cores


@contextmanager
def shown(progress: Progress, console: Console) -> Iterator[Callable[[Update], None]]:
    """Yield what shows a change, from any thread: in a live table on a terminal, else in lines."""
    if console.is_terminal:
        table = LiveTable(progress)
        with Live(
            console=console,
            get_renderable=table.drawn,
            refresh_per_second=REFRESHES_PER_SECOND,
        ):
            yield progress.note
        return
    lines = PlainLines(progress)
    stop = Event()
    ticker = Thread(target=lines.tick, args=(stop,), daemon=True)
    ticker.start()
    try:
        yield lines.show
    finally:
        stop.set()
        ticker.join()


class PlainLines:
    """One line when a stage begins, one when it ends, one each 15 s; for logs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._began = time.monotonic()
        self._lock = Lock()

    def show(self, update: Update) -> None:
        """Write a line when a stage begins or ends."""
        with self._lock:
            known = self._progress.updates[update.key].state
            self._progress.note(update)
            if update.state in {State.SKIPPED, known}:
                return
            took = f" ({update.seconds:.1f} s)" if update.state is State.DONE else ""
            detail = f": {update.detail}" if update.detail else ""
            word = {State.DONE: "done   ", State.FAILED: "FAILED "}.get(update.state, "       ")
            self._print(f"{word}{self._progress.title(update.key)}{took}{detail}")

    def tick(self, stop: Event) -> None:
        """Say each 15 s how far the run is."""
        while not stop.wait(TICK_SECONDS):
            with self._lock:
                self._print(self._progress.line())

    def _print(self, words: str) -> None:
        line = f"[{time.monotonic() - self._began:6.1f} s] {words}"
        print(
            line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}\N{HORIZONTAL ELLIPSIS}",
            flush=True,
        )


class LiveTable:
    """One row a stage: mark, title, elapsed time, what it waits for or what was reached.

    The last line says what is left.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._spinner = Spinner("dots", style="cyan")

    def drawn(self) -> Group:
        """Return the table as it is now."""
        # A ratio: the last column has what the others leave. Without one Rich cuts all columns
        # alike where the terminal is narrow, and times are the first to go.
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", width=8, no_wrap=True)
        table.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
        for stage in self._progress.stages:
            update = self._progress.updates[stage.key]
            table.add_row(
                self._mark(update),
                Text(stage.title, style="" if update.state is not State.WAITING else "dim"),
                self._elapsed(update),
                Text(
                    update.detail or self._waits_for(stage, update),
                    style="red" if update.state is State.FAILED else "dim",
                ),
            )
        return Group(table, Text(self._progress.line(), no_wrap=True, overflow="ellipsis"))

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
        seconds = self._progress.running_seconds(update.key) if running else update.seconds
        return f"{seconds:.1f} s"

    def _waits_for(self, stage: Stage, update: Update) -> str:
        if update.state is not State.WAITING:
            return ""
        open_needs = [
            other.title
            for other in self._progress.stages
            if other.key in stage.needs
            and self._progress.updates[other.key].state is not State.DONE
        ]
        return f"waits for: {', '.join(open_needs)}" if open_needs else ""


def make_console() -> Console:
    """Return the console of this process; progress goes to standard output."""
    return Console(file=sys.stdout, highlight=False)
