"""A sink that keeps what the Reference engine gives out, and can walk away."""

import threading
from collections.abc import Callable, Iterable

from mm_runtime.reference_engine.engine import Engine
from mm_runtime.serving.generate.request import Piece, Request

DEADLINE_SECONDS = 60


class CollectingSink:
    """Keeps the pieces of one answer."""

    def __init__(self, on_piece: Callable[[Piece], None] | None = None) -> None:
        """Start empty; `on_piece` is called in the engine's thread."""
        self.pieces: list[Piece] = []
        self.error: Exception | None = None
        self.was_cancelled = False
        self.walked_away = False
        self._on_piece = on_piece
        self._ended = threading.Event()

    @property
    def ids(self) -> list[int]:
        return [token for piece in self.pieces for token in piece.ids]

    def wait(self) -> list[int]:
        assert self._ended.wait(DEADLINE_SECONDS), "the request never ended"
        if self.error is not None:
            raise self.error
        return self.ids

    def wait_ended(self) -> None:
        assert self._ended.wait(DEADLINE_SECONDS), "the request never ended"

    def send(self, piece: Piece) -> None:
        assert not self._ended.is_set(), "a piece after the end"
        self.pieces.append(piece)
        if self._on_piece is not None:
            self._on_piece(piece)
        if piece.finish is not None:
            self._ended.set()

    def fail(self, error: Exception) -> None:
        assert not self._ended.is_set(), "an error after the end"
        self.error = error
        self._ended.set()

    def cancelled(self) -> None:
        self.was_cancelled = True
        self._ended.set()

    def is_cancelled(self) -> bool:
        return self.walked_away


def submitted(engine: Engine, requests: Iterable[Request]) -> list[CollectingSink]:
    sinks = []
    for request in requests:
        sinks.append(CollectingSink())
        engine.submit(request, sinks[-1])
    return sinks


def outcomes(engine: Engine, requests: Iterable[Request]) -> list[list[int] | type[Exception]]:
    """Return the tokens of each answer to requests that come together, or its error's type."""
    found: list[list[int] | type[Exception]] = []
    for sink in submitted(engine, requests):
        sink.wait_ended()
        found.append(type(sink.error) if sink.error else sink.ids)
    return found


def answers_of(engine: Engine, requests: Iterable[Request]) -> list[list[int]]:
    return [sink.wait() for sink in submitted(engine, requests)]
