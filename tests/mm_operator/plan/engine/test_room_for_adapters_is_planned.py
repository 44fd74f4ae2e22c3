"""Room for LoRA adapters in a plan: its bytes, its part of engine and revision, who has none."""

from typing import Any

import pytest

from mm_api.documents.adapter_room import LoraRoom
from mm_api.documents.model_facts import AdapterFacts, LoraFacts, ModelFacts
from mm_api.families import FAMILIES
from mm_operator.plan.engine.adapter_room import check_room, room_bytes
from mm_operator.plan.engine.target import Target
from support.model_configs import planned_engine, reference_inputs, reference_plan
from support.models import spec_of, tiny_facts

CLAIM = {"persistentVolumeClaim": {"claimName": "tuned"}}
ROOM = {"maxAdapters": 2, "maxRank": 16}


def spec(*names: str, room: dict[str, int] | None = ROOM) -> dict[str, Any]:
    """Return a spec with adapters, and with room for some."""
    lora = [{"name": name, "source": CLAIM} for name in names]
    return {"engine": {"lora": lora, **({"loraRoom": room} if room else {})}}


def facts(*names: str, rank: int = 8) -> ModelFacts:
    """Return the facts of the tiny model and of these adapters."""
    found = [AdapterFacts(name=name, source_digest="sha256:" + "0" * 64) for name in names]
    if not found:
        return tiny_facts()
    return tiny_facts(lora=LoraFacts(adapters=found, modules={"llm": ["attn_q"]}, rank=rank))


def test_a_room_counts_every_module_at_its_rank() -> None:
    """4 layers: q, k, v, o of 128 x 128 and three of 128 x 384, two matrices each, in float32."""
    rows = 4 * (4 * (128 + 128) + 3 * (128 + 384))
    room = LoraRoom(key="uid", max_adapters=2, max_rank=16)
    assert room_bytes(room, tiny_facts(), 4) == 2 * 16 * rows * 4


def test_memory_counts_the_room_and_not_what_fills_it() -> None:
    """An empty room takes as much as a full one, so that an adapter more always fits."""
    without = planned_engine(reference_inputs(facts(), spec(room=None))).memory.host
    room = LoraRoom(key="m", max_adapters=2, max_rank=16)
    assert without is not None
    for names in ((), ("one",), ("one", "two")):
        host = planned_engine(reference_inputs(facts(*names), spec(*names))).memory.host
        assert host is not None
        assert host.weights_bytes - without.weights_bytes == room_bytes(room, tiny_facts(), 4)


def test_the_plan_says_how_large_the_room_is_and_why() -> None:
    """As declared, or as the adapters need it."""
    found = [
        {
            one.field: (one.value, one.reason)
            for one in planned_engine(
                reference_inputs(facts("one", rank=rank), spec("one"))
            ).reasons
        }["loraRoom"]
        for rank in (8, 32)
    ]
    assert found == [
        ("2 adapters of rank 16: 1310720 bytes", "as written in spec.engine.loraRoom"),
        (
            "2 adapters of rank 32: 2621440 bytes",
            "spec.engine.lora needs more than spec.engine.loraRoom declares",
        ),
    ]


def test_adapters_within_the_room_change_no_document() -> None:
    """Neither the engine's plan nor that of the pods says which adapters there are."""
    plans = [
        planned_engine(reference_inputs(facts(*names), spec(*names)))
        for names in ((), ("one",), ("one", "two"))
    ]
    assert len({plan.build_plan.to_json() for plan in plans}) == 1
    assert len({plan.serving_plan.to_json() for plan in plans}) == 1
    assert plans[0].build_plan.adapters == []
    bare = planned_engine(reference_inputs(facts(), spec(room=None)))
    assert plans[0].build_plan.fingerprint == bare.build_plan.fingerprint


def test_the_room_grows_with_what_its_adapters_need() -> None:
    """More or higher ones than declared: another plan of the pods, of the same engine."""
    plans = [
        planned_engine(reference_inputs(found, spec(*names)))
        for names, found in (
            (("one",), facts("one", rank=32)),
            (("a", "b", "c"), facts("a", "b", "c")),
        )
    ]
    rooms = [plan.serving_plan.lora_room for plan in plans]
    assert rooms == [
        LoraRoom(key="m", max_adapters=2, max_rank=32),
        LoraRoom(key="m", max_adapters=3, max_rank=16),
    ]
    assert len({plan.build_plan.fingerprint for plan in plans}) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param(
            {"rollout": {"requireEvaluation": True}}, "rollout.requireEvaluation", id="evaluation"
        ),
        pytest.param(
            {"build": {"store": {"s3": {"bucket": "engines"}}}}, "from a bucket", id="bucket"
        ),
    ],
)
def test_what_has_no_room_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    """What would be compared with nothing, or would never reach the pods."""
    plan = reference_plan(facts(), {**spec(), **changes})
    (error,) = plan.errors
    assert (error.path, error.code) == ("spec.engine.loraRoom", "NotSupported")
    assert words in error.message


@pytest.mark.parametrize(
    ("family", "on_gpu", "words"),
    [
        pytest.param("llava", True, "on a GPU passes are recorded", id="gpu"),
        pytest.param("generic", False, "run in their own class", id="own-class"),
        pytest.param("phi3-vision", False, "that are joined there", id="joined-matrices"),
    ],
)
def test_engines_that_cannot_change_have_no_room(family: str, *, on_gpu: bool, words: str) -> None:
    """What computes with recorded passes, or without layers that adapters go into."""
    target = Target("m", spec_of(spec()), tiny_facts(), FAMILIES[family])
    (error,) = check_room(target, on_gpu=on_gpu)
    assert error.path == "spec.engine.loraRoom"
    assert words in str(error)
