"""Requests join and leave between steps; none waits for another one's end."""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.serving.errors import EngineStoppedError, QueueFullError, RequestError
from mm_runtime.serving.generate.request import Finish, Piece, Request
from support.cases import cases
from support.collecting_sink import DEADLINE_SECONDS, CollectingSink
from support.engines import AMPLE_OPTIONS, MAX_LENGTH, SLOTS, StartEngine, started
from support.eventually import eventually
from support.tiny_llava import VOCABULARY

PROMPT = (2, 10, 11, 12)


def _request(tokens: int, prompt: tuple[int, ...] = PROMPT, **changes: object) -> Request:
    return Request(ids=prompt, max_tokens=tokens, end_ids=frozenset(), **changes)  # type: ignore[arg-type]


def _wait(engine: Engine, running: int) -> None:
    eventually(
        lambda: engine.counts().running == running,
        seconds=DEADLINE_SECONDS,
        pause_seconds=0.001,
        showing=engine.counts,
    )


def _wait_stopping(engine: Engine) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        assert time.monotonic() < deadline
        try:
            with suppress(QueueFullError):
                engine.submit(_request(1), CollectingSink())
        except EngineStoppedError:
            return
        time.sleep(0.001)


class Held(CollectingSink):
    """Keeps the engine at its first piece until it is let go, so that nothing ends meanwhile."""

    def __init__(self) -> None:
        super().__init__(self._hold)
        self._begun, self._let = threading.Event(), threading.Event()

    def wait_begun(self) -> None:
        assert self._begun.wait(DEADLINE_SECONDS)

    def let_go(self) -> None:
        self._let.set()

    def _hold(self, _: Piece) -> None:
        self._begun.set()
        assert self._let.wait(DEADLINE_SECONDS)


def test_one_step_decodes_several_requests(start_engine: StartEngine) -> None:
    with start_engine() as engine:
        sinks = [CollectingSink() for _ in range(SLOTS)]
        for sink in sinks:
            engine.submit(_request(50), sink)
        assert [len(sink.wait()) for sink in sinks] == [50] * SLOTS
        counts = engine.counts()
    # The first token of each comes from its prompt.
    assert counts.decoded_tokens == SLOTS * 49
    assert counts.steps < 2 * 49


def test_steps_are_reported_by_their_size(language_model: LanguageModel) -> None:
    reported: Counter[int] = Counter()
    idle = threading.Event()

    def report(sizes: Mapping[int, int]) -> None:
        reported.update(sizes)
        if reported.total() == 49:
            idle.set()

    with started(Engine(language_model, AMPLE_OPTIONS), report) as engine:
        engine.submit(_request(50), CollectingSink())
        assert idle.wait(DEADLINE_SECONDS), reported
    assert reported == {1: 49}


def test_short_request_overtakes_a_long_one(start_engine: StartEngine) -> None:
    ended: list[str] = []

    def note(name: str) -> CollectingSink:
        def on_piece(piece: Piece) -> None:
            if piece.finish is not None:
                ended.append(name)
            elif name == "long" and len(long.pieces) == 1:
                engine.submit(_request(3), short)

        return CollectingSink(on_piece)

    with start_engine() as engine:
        long, short = note("long"), note("short")
        engine.submit(_request(400), long)
        short.wait()
        long.wait()
    assert ended == ["short", "long"]


@cases(
    "limits",
    {
        "7 tokens a step have room": {"max_num_tokens": 8},
        "5 tokens a step beside an answer": {"prompt_rows": 1},
    },
)
def test_long_prompt_does_not_stall_a_running_answer(
    start_engine: StartEngine, limits: dict[str, int]
) -> None:
    with start_engine(**limits) as engine:
        running = CollectingSink()
        arrived = threading.Event()
        seen: list[int] = []

        def on_piece(_: Piece) -> None:
            seen.append(len(running.pieces))
            arrived.set()

        late = CollectingSink(on_piece)
        engine.submit(_request(200), running)
        _wait(engine, 1)
        engine.submit(_request(1, prompt=(2, *[10] * 300)), late)
        late.wait()
        running.wait()
    # 301 prompt tokens at 7 a step: the running answer got about 43 tokens meanwhile.
    assert seen[0] > 30


def test_cancelled_request_frees_its_slot_for_a_waiting_one(start_engine: StartEngine) -> None:
    with start_engine(max_batch_size=1) as engine:
        first, second = Held(), CollectingSink()
        engine.submit(_request(MAX_LENGTH), first)
        first.wait_begun()
        engine.submit(_request(2), second)
        first.walked_away = True
        first.let_go()
        assert len(second.wait()) == 2
        first.wait_ended()
    assert (first.was_cancelled, len(first.ids) < MAX_LENGTH - len(PROMPT)) == (True, True)


def test_prompt_of_a_client_that_goes_is_dropped(start_engine: StartEngine) -> None:
    with start_engine(prompt_rows=1) as engine:
        alone, gone = CollectingSink(), CollectingSink()
        engine.submit(_request(200), alone)
        alone.wait()
        steps = engine.counts().steps

        def on_piece(_: Piece) -> None:
            # In the engine's thread: at a certain step, whatever the machine's speed.
            if engine.counts().steps == steps + 20:
                engine.submit(_request(1, prompt=(2, *[10] * 300)), gone)
            gone.walked_away = engine.counts().steps > steps + 40

        together = CollectingSink(on_piece)
        engine.submit(_request(200), together)
        assert alone.ids == together.wait()
        gone.wait_ended()
    assert (gone.was_cancelled, gone.ids) == (True, [])


def test_cancelled_request_leaves_the_queue(start_engine: StartEngine) -> None:
    with start_engine(max_batch_size=1) as engine:
        running, waiting = Held(), CollectingSink()
        engine.submit(_request(MAX_LENGTH), running)
        running.wait_begun()
        waiting.walked_away = True
        engine.submit(_request(2), waiting)
        running.let_go()
        waiting.wait_ended()
        running.walked_away = True
        running.wait_ended()
    assert (waiting.was_cancelled, waiting.ids) == (True, [])


def test_full_queue_refuses(start_engine: StartEngine) -> None:
    with start_engine(max_batch_size=1, max_queue_size=1) as engine:
        running, waiting = Held(), CollectingSink()
        engine.submit(_request(MAX_LENGTH), running)
        running.wait_begun()
        engine.submit(_request(1), waiting)
        with pytest.raises(QueueFullError, match="1 requests wait already"):
            engine.submit(_request(1), CollectingSink())
        running.walked_away = True
        running.let_go()
        assert len(waiting.wait()) == 1


@cases(
    "request_ message",
    {
        "empty prompt": (_request(1, prompt=()), "prompt has 0 tokens"),
        "long prompt": (_request(1, prompt=(5,) * 401), "1 to 400 are allowed"),
        "no tokens requested": (_request(0), "max_tokens is 0"),
        "row without a table": (_request(1, prompt=(VOCABULARY,)), "0 rows"),
        "row past the table": (
            _request(1, prompt=(VOCABULARY + 4,), table=np.zeros((4, 128), np.float16)),
            "4 rows",
        ),
        "narrow table": (_request(1, table=np.zeros((4, 64), np.float16)), "64 values"),
    },
)
def test_impossible_requests_are_refused(
    start_engine: StartEngine, request_: Request, message: str
) -> None:
    with start_engine() as engine, pytest.raises(RequestError, match=message):
        engine.submit(request_, CollectingSink())


def test_a_burst_fills_free_slots_before_the_queue(language_model: LanguageModel) -> None:
    engine = Engine(language_model, replace(AMPLE_OPTIONS, max_queue_size=1))
    for _ in range(SLOTS + 1):
        engine.submit(_request(1), CollectingSink())
    with pytest.raises(QueueFullError, match="1 requests wait already"):
        engine.submit(_request(1), CollectingSink())


def test_queue_without_bound(start_engine: StartEngine) -> None:
    with start_engine(max_batch_size=1, max_queue_size=0) as engine:
        sinks = [CollectingSink() for _ in range(40)]
        for sink in sinks:
            engine.submit(_request(1), sink)
        assert [len(sink.wait()) for sink in sinks] == [1] * 40


def test_answer_is_cut_to_the_room_there_is(start_engine: StartEngine) -> None:
    with start_engine() as engine:
        sink = CollectingSink()
        engine.submit(_request(10_000), sink)
        assert MAX_LENGTH - len(PROMPT) == len(sink.wait())
    assert sink.pieces[-1].finish == Finish.LENGTH


def test_stopping_ends_every_request(start_engine: StartEngine) -> None:
    running = Held()
    sinks = [running, CollectingSink(), CollectingSink()]
    with start_engine(max_batch_size=1) as engine:
        for sink in sinks:
            engine.submit(_request(MAX_LENGTH), sink)
        running.wait_begun()
        stopping = threading.Thread(target=engine.stop, args=(DEADLINE_SECONDS,))
        stopping.start()
        _wait_stopping(engine)
        running.let_go()
        stopping.join(DEADLINE_SECONDS)
    for sink in sinks:
        sink.wait_ended()
    assert [EngineStoppedError] * 3 == [type(sink.error) for sink in sinks]
    with pytest.raises(EngineStoppedError):
        engine.submit(_request(1), CollectingSink())
