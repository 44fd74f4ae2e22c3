"""The decision about changed LoRA adapters: into the pods that run, or pods in their place."""

import pytest

from mm_api.documents.adapter_room import LoraRoom
from mm_api.documents.model_facts import AdapterFacts, LoraFacts
from mm_api.v1alpha1.engine import Backend
from mm_operator.plan.adapter_changes import Load, RollOut, decide_change

ROOM = LoraRoom(key="uid", max_adapters=2, max_rank=16)


def lora(count: int, rank: int) -> LoraFacts:
    """Return the facts of so many adapters, the highest of this rank."""
    adapters = [
        AdapterFacts(name=f"a{number}", source_digest="sha256:" + "0" * 64)
        for number in range(count)
    ]
    return LoraFacts(adapters=adapters, modules={"llm": ["attn_q"]}, rank=rank)


@pytest.mark.parametrize(
    ("room", "facts", "backend", "expected"),
    [
        pytest.param(ROOM, None, "Reference", Load(), id="none-left"),
        pytest.param(ROOM, lora(2, 16), "Reference", Load(), id="exactly-full"),
        pytest.param(
            ROOM,
            lora(1, 17),
            "Reference",
            RollOut("an adapter has rank 17, above the 16 that there is room for"),
            id="rank",
        ),
        pytest.param(
            ROOM,
            lora(3, 4),
            "Reference",
            RollOut("no slot is left: 3 adapters are wanted, and there is room for 2"),
            id="slots",
        ),
        pytest.param(
            None,
            lora(1, 4),
            "Reference",
            RollOut("the pods that run have no room for adapters"),
            id="no-room",
        ),
        pytest.param(
            ROOM,
            lora(1, 4),
            "TensorRT",
            RollOut("backend TensorRT loads adapters at its start"),
            id="backend",
        ),
    ],
)
def test_what_fits_is_loaded(
    room: LoraRoom | None, facts: LoraFacts | None, backend: Backend, expected: Load | RollOut
) -> None:
    """Rank and number within the room of the pods: loaded; else the reason says what does not."""
    assert decide_change(room, facts, backend) == expected
