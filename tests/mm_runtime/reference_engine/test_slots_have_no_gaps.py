"""When a request leaves, those that stay have the first slots, in the model as in the engine."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from mm_runtime.reference_engine.slots import Slots

if TYPE_CHECKING:
    from mm_runtime.reference_engine.model import SlotModel
    from mm_runtime.reference_engine.running import Running


class Model:
    """Knows what each of its slots holds."""

    def __init__(self, *held: str) -> None:
        self.held = list(held)

    def move(self, source: int, target: int, length: int) -> None:
        assert length == len(self.held[source])
        self.held[target], self.held[source] = self.held[source], self.held[target]


class One:
    """A request with positions."""

    def __init__(self, name: str) -> None:
        self.name, self.length = name, len(name)


def slots_of(
    decoding: list[str], reading: str | None, following: str | None
) -> tuple[Slots, Model]:
    unread = [name for name in (reading, following) if name is not None]
    model = Model(*decoding, *unread)
    slots = Slots(cast("SlotModel", model))
    slots.decoding = [_one(name) for name in decoding]
    slots.reading = _one(reading) if reading else None
    slots.next = _one(following) if following else None
    return slots, model


def _one(name: str) -> "Running":
    return cast("Running", One(name))


def names(slots: Slots) -> list[str]:
    running: list[Any] = [*slots.running]
    return [one.name for one in running]


@pytest.mark.parametrize("reading", [None, "reading"])
@pytest.mark.parametrize("following", [None, "the-next"])
@pytest.mark.parametrize("leaving", [0, 1, 2])
def test_an_answer_leaves(reading: str | None, following: str | None, leaving: int) -> None:
    slots, model = slots_of(["a", "bb", "ccc"], reading, following)
    gone = names(slots)[leaving]

    slots.leave(leaving)

    assert gone not in names(slots)
    assert len(names(slots)) == 2 + (reading is not None) + (following is not None)
    assert model.held[: len(names(slots))] == names(slots)


@pytest.mark.parametrize("following", [None, "the-next"])
def test_a_prompt_is_dropped(following: str | None) -> None:
    slots, model = slots_of(["a", "bb"], "reading", following)

    slots.drop_reading()
    slots.turn_to_next()

    assert names(slots) == [name for name in ("a", "bb", following) if name]
    assert model.held[: len(names(slots))] == names(slots)
    assert slots.next is None


def test_a_prompt_that_is_read_decodes() -> None:
    slots, _ = slots_of(["a"], "bb", "ccc")

    slots.decode()
    slots.turn_to_next()

    assert names(slots) == ["a", "bb", "ccc"]
    assert [len(slots.decoding), len(slots.unread)] == [2, 1]


def test_the_next_prompt_waits_for_its_turn() -> None:
    slots, _ = slots_of(["a"], "bb", "ccc")

    slots.turn_to_next()

    assert slots.next is not None
    assert names(slots) == ["a", "bb", "ccc"]
