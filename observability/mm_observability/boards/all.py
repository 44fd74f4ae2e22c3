"""Every dashboard, in the order of Grafana's list."""

from mm_observability.boards import autoscaling, builds, fleet, model, operator
from mm_observability.boards.board import Board, Query


def every_board() -> tuple[Board, ...]:
    """Return every dashboard."""
    return (fleet.board(), model.board(), builds.board(), autoscaling.board(), operator.board())


def every_query() -> tuple[tuple[str, Query], ...]:
    """Return each query with its place, `uid / panel / number`."""
    found = [
        (f"{board.uid} / {panel.title} / {number}", query)
        for board in every_board()
        for row in board.rows
        for panel in row.panels
        for number, query in enumerate(panel.queries, start=1)
    ]
    marks = [
        (f"{board.uid} / annotation", board.annotation)
        for board in every_board()
        if board.annotation
    ]
    return (*found, *marks)
