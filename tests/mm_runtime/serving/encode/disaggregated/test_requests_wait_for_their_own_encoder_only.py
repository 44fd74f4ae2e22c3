"""A slow encoder holds up its own request; what none answers is encoded here, once each."""

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm_api.rendezvous import order
from mm_runtime.serving.encode.disaggregated.client import (
    FIRST_SECONDS,
    LONGEST_SECONDS,
    Backoff,
    EncoderError,
    FallbackReason,
)
from mm_runtime.serving.encode.disaggregated.dispatcher import EncoderDispatcher
from mm_runtime.serving.encode.encoding import Outputs
from mm_runtime.serving.encode.queue import EncodeQueue, Results
from mm_runtime.serving.tensors import Tensors
from support.encoder_requests import SECONDS, Submitted, image_tensors, reads


@dataclass
class Scripted(Submitted):
    """Encoders that answer when they are let, and this server's own encoder."""

    fails: bool = False
    defect: bool = False
    may_answer: dict[int, threading.Event] = field(default_factory=dict)
    encoded_here: list[list[int]] = field(default_factory=list)
    reported: list[tuple[str, int]] = field(default_factory=list)

    def encode(self, inputs: Tensors) -> Outputs:
        number = inputs["IMAGE"].item()
        if number in self.may_answer:
            assert self.may_answer[number].wait(SECONDS)
        if self.fails:
            raise EncoderError(FallbackReason.UNAVAILABLE, "none is there")
        return {"THERE": np.array([number])}

    def own(self, requests: Sequence[Tensors]) -> Results:
        if self.defect:
            raise ValueError("the engine is broken")
        numbers = [one["IMAGE"].item() for one in requests]
        self.encoded_here.append(numbers)
        return [{"HERE": np.array([number])} for number in numbers]

    def encoded(self, by: str, requests: int, seconds: float) -> None:
        assert seconds >= 0
        self.reported.append((by, requests))

    def fell_back(self, why: FallbackReason) -> None:
        self.reported.append((why.value, 1))


def encoders_first(script: Scripted, parallel: int = 2) -> EncoderDispatcher:
    own = EncodeQueue(
        script.own, reads=reads, together=2, begins=lambda: None, waited=lambda _: None
    )
    return EncoderDispatcher(own, client=script, parallel=parallel, observer=script)


def test_others_pass_by_a_slow_encoder() -> None:
    script = Scripted(may_answer={1: threading.Event()})
    first = encoders_first(script)
    script.submit(first, 1, image_tensors(1))
    script.submit(first, 2, image_tensors(2))
    script.submit(first, 3, {})
    script.submit(first, 4, image_tensors(-1))
    meanwhile = {script.answer() for _ in range(3)}
    script.may_answer[1].set()

    assert meanwhile == {(2, "THERE"), (3, ""), (4, "a wrong image")}
    assert script.answer() == (1, "THERE")
    first.close()
    assert script.reported == [("encoders", 1)] * 2


def test_what_none_answers_is_encoded_here_together() -> None:
    script = Scripted(fails=True)
    first = encoders_first(script)
    for number in range(7):
        script.submit(first, number, image_tensors(number))
    answers = {script.answer() for _ in range(7)}
    first.close()

    assert answers == {(number, "HERE") for number in range(7)}
    assert sorted(one for batch in script.encoded_here for one in batch) == list(range(7))
    assert {len(batch) for batch in script.encoded_here} <= {1, 2}
    assert script.reported == [("unavailable", 1)] * 7


def test_a_defect_is_reported_and_gives_its_place_back() -> None:
    """More failures than places: a place that were lost would stop the last ones."""
    script = Scripted(fails=True, defect=True)
    first = encoders_first(script)
    for number in range(5):
        script.submit(first, number, image_tensors(number))
    answers = {script.answer() for _ in range(5)}
    first.close()

    assert answers == {(number, "the engine is broken") for number in range(5)}


def test_no_more_wait_than_there_are_places() -> None:
    """A request too many waits outside until one was answered: pixels are held for no more."""
    script = Scripted(may_answer={1: threading.Event(), 2: threading.Event()})
    first = encoders_first(script)
    for number in (1, 2):
        script.submit(first, number, image_tensors(number))
    third = threading.Thread(target=script.submit, args=(first, 3, image_tensors(3)))
    third.start()
    with pytest.raises(queue.Empty):
        script.answers.get(timeout=0.2)
    script.may_answer[2].set()

    assert {script.answer(), script.answer()} == {(2, "THERE"), (3, "THERE")}
    script.may_answer[1].set()
    assert script.answer() == (1, "THERE")
    third.join(SECONDS)
    first.close()


ENCODERS = [f"10.0.0.{number}:8001" for number in range(1, 6)]
KEYS = [number.to_bytes(32) for number in range(1000)]
IMAGES = st.binary(min_size=1, max_size=64)


@given(IMAGES, st.permutations(ENCODERS))
def test_all_servers_agree(key: bytes, shuffled: list[str]) -> None:
    assert order(key, ENCODERS) == order(key, shuffled)


@given(IMAGES, st.sampled_from(ENCODERS))
def test_only_images_of_an_encoder_that_left_move(key: bytes, gone: str) -> None:
    rest = [one for one in ENCODERS if one != gone]
    assert [one for one in order(key, ENCODERS) if one != gone] == order(key, rest)


def test_images_spread() -> None:
    first = [order(key, ENCODERS)[0] for key in KEYS]
    counts = {one: first.count(one) for one in ENCODERS}
    assert [one for one, count in counts.items() if not 150 <= count <= 250] == []


def test_rests_grow_and_end() -> None:
    rests, now, lengths = Backoff(), 0.0, []
    for _ in range(7):
        rests.failed("a", now)
        rests.failed("a", now)  # others of the same moment
        length = next(s for s in (1, 2, 4, 8, 16, 30) if not rests.is_backing_off("a", now + s))
        lengths.append(length)
        now += length
    assert lengths == [FIRST_SECONDS, 2, 4, 8, 16, LONGEST_SECONDS, LONGEST_SECONDS]
    rests.failed("a", now)
    assert not rests.is_backing_off("b", now)
    rests.answered("a")
    assert not rests.is_backing_off("a", now)
    rests.failed("a", now)
    assert not rests.is_backing_off("a", now + FIRST_SECONDS)
