"""A state machine of clients that join, leave, are refused and break beside each other.

It drives a real engine on a real model, turn by turn in the test's own thread, so that what happens
depends on nothing but the rules that were drawn. Each answer is compared with the one that the same
question gets alone.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.model import SlotModel
from mm_runtime.serving.errors import QueueFullError, RequestError
from mm_runtime.serving.generate.request import Piece, Request
from support.collecting_sink import CollectingSink
from support.engines import SLOTS, changed

OPTIONS = changed(
    max_queue_size=8, max_num_tokens=24, prompt_rows=6, max_input_len=48, max_seq_len=64
)
"""Prompts are read in several parts, clients wait, and are checked for whether they still do."""

MOST_TURNS = 20_000
"""For those that wait at the end; an engine that needs more hangs."""

MakeRequest = Callable[[], Request]
"""Returns equal requests that share no array, as those of two clients."""


@dataclass(frozen=True)
class Questions:
    """What clients of a model query."""

    good: Sequence[MakeRequest]
    refused: Sequence[MakeRequest]
    """They are never queued."""

    broken: Sequence[MakeRequest]
    """They fail at their first token or a later one."""


class Client(CollectingSink):
    """A sink that knows what it should get."""

    def __init__(self, expected: Sequence[Piece] | None) -> None:
        super().__init__()
        self.expected = expected

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def check(self) -> None:
        """Say what is wrong with what it got so far."""
        if self.expected is None:
            assert self.error is not None or self.was_cancelled or not self.ended
            return
        assert self.error is None, f"failed beside others: {self.error!r}"
        answer = [token for piece in self.expected for token in piece.ids]
        assert self.ids == answer[: len(self.ids)]
        if self.ended and not self.was_cancelled:
            assert [_seen(piece) for piece in self.pieces] == [
                _seen(piece) for piece in self.expected
            ]
        assert self.walked_away or not self.was_cancelled


class Deaf(Client):
    """A client whose connection breaks at its second piece."""

    def send(self, piece: Piece) -> None:
        if self.pieces:
            raise OSError("the connection is broken")
        super().send(piece)


def _seen(piece: Piece) -> object:
    return (piece.ids, piece.finish, tuple(beam.ids for beam in piece.beams))


def answer_alone(model: SlotModel, request: Request) -> tuple[Piece, ...]:
    """Return what a request gets from an engine that serves no one else."""
    engine, sink = Engine(model, OPTIONS), Client(None)
    engine.submit(request, sink)
    while not sink.ended:
        engine.turn()
    sink.wait()
    return tuple(sink.pieces)


def neighbours(  # noqa: C901 (rules are methods of a class of this model)
    model: SlotModel,
    questions: Questions,
    stepped: Callable[[], None],
    forgetful: SlotModel | None = None,
) -> type[RuleBasedStateMachine]:
    """Return the state machine.

    Args:
        model: served by one engine after the other.
        questions: sent in any order, any number of times.
        stepped: called for each rule that is followed.
        forgetful: the same model, which keeps nothing of earlier requests; None: `model` is it.
    """
    alone = [answer_alone(forgetful or model, make_request()) for make_request in questions.good]
    any_good = st.sampled_from(range(len(questions.good)))

    class Neighbours(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self._engine = Engine(model, OPTIONS)
            self._clients: list[Client] = []

        def _join(self, request: Request, client: Client) -> None:
            with suppress(QueueFullError):
                self._engine.submit(request, client)
                self._clients.append(client)

        @rule(which=any_good, clients=st.integers(1, 6), leaver=st.integers(0, 9))
        def join(self, which: int, clients: int, leaver: int) -> None:
            for number in range(clients):
                client = Client(alone[which])
                client.walked_away = number == leaver
                self._join(questions.good[which](), client)

        @rule(several=st.lists(any_good, min_size=2, max_size=6), leaver=st.integers(0, 9))
        def meet(self, several: list[int], leaver: int) -> None:
            for number, which in enumerate(several):
                client = Client(alone[which])
                client.walked_away = number == leaver
                self._join(questions.good[which](), client)

        @rule(which=st.integers(0, 99))
        def leave(self, which: int) -> None:
            if self._clients:
                self._clients[which % len(self._clients)].walked_away = True

        @rule(make_request=st.sampled_from(questions.refused))
        def be_refused(self, make_request: MakeRequest) -> None:
            with pytest.raises(RequestError):
                self._engine.submit(make_request(), Client(None))

        @rule(make_request=st.sampled_from(questions.broken))
        def break_down(self, make_request: MakeRequest) -> None:
            self._join(make_request(), Client(None))

        @rule(which=any_good)
        def lose_the_connection(self, which: int) -> None:
            # An entire answer in one piece would arrive.
            if len(alone[which]) > 1:
                self._join(questions.good[which](), Deaf(None))

        @rule(turns=st.integers(1, 12))
        def take_turns(self, turns: int) -> None:
            for _ in range(turns):
                self._engine.turn()

        @invariant()
        def answers_are_those_that_each_gets_alone(self) -> None:
            stepped()
            for client in self._clients:
                client.check()
            self._clients = [client for client in self._clients if not client.ended]
            assert self._engine.counts().running <= SLOTS

        def teardown(self) -> None:
            turns = 0
            while (counts := self._engine.counts()).running or counts.waiting:
                self._engine.turn()
                turns += 1
                assert turns < MOST_TURNS, f"{counts} after {turns} turns"
            for client in self._clients:
                assert client.ended, "neither answered nor failed"
                client.check()

    return Neighbours


def copied(request: Request) -> MakeRequest:
    """Return a function that returns equal requests with arrays of their own."""

    def make_request() -> Request:
        own = {name: None if it is None else it.copy() for name, it in arrays.items()}
        return replace(request, **own)  # type: ignore[arg-type]

    arrays = {"table": request.table, "bias": request.bias}
    return make_request
