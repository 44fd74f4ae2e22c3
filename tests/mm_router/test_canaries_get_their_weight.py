"""One name for several models by weight: a chat stays with its version, and none goes without."""

import asyncio
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from mm_edge.errors import UnknownModelError
from mm_router.catalog import Catalog, Model
from mm_router.ejection import Failure
from mm_router.fleet import Fleet
from mm_router.followed_file import FollowedFile
from mm_router.hold import HoldLimits, Holds
from mm_router.metrics import RouterMetrics
from mm_router.splits import Part, Split, SplitReason, choose, key_of_turn, read_splits
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.routers import address_of, route
from support.scripted_engine import ScriptedEngine

KEYS = [key_of_turn(number) for number in range(2000)]
OLD, NEW = Model("blue", "old"), Model("blue", "new", ("poet",))


def parts(**weights: int) -> list[Part]:
    return [Part(f"blue/{name}", weight) for name, weight in weights.items()]


def names_of_keys(weighted: list[Part]) -> dict[bytes, str]:
    ready = [True] * len(weighted)
    return {key: choose(key, weighted, ready)[0].model for key in KEYS}


@pytest.mark.parametrize("canary", [0, 1, 5, 20, 50, 100])
def test_keys_divide_by_weight(canary: int) -> None:
    counted = Counter(names_of_keys(parts(old=100 - canary, new=canary)).values())

    deviation = math.sqrt(2000 * canary / 100 * (1 - canary / 100))
    assert abs(counted["blue/new"] - 2000 * canary / 100) <= 4 * deviation


def test_a_larger_weight_moves_keys_to_it_alone() -> None:
    """From 5 to 20 of 100: chats of the canary stay there, others come, none goes back."""
    before, after = (names_of_keys(parts(old=100 - n, new=n)) for n in (5, 20))

    moved = {(before[key], after[key]) for key in KEYS if before[key] != after[key]}
    assert moved == {("blue/old", "blue/new")}


@cases(
    "weights ready expected",
    {
        "both": ({"a": 1, "b": 99}, (True, True), {SplitReason.WEIGHT}),
        "one": ({"a": 1, "b": 99}, (True, False), {SplitReason.WEIGHT, SplitReason.FALLBACK}),
        "none": ({"a": 1, "b": 99}, (False, False), {SplitReason.WEIGHT}),
        "one-without-weight": ({"a": 0, "b": 99}, (True, False), {SplitReason.WEIGHT}),
    },
)
def test_a_version_that_is_not_ready_is_stood_in_for(
    weights: dict[str, int], ready: tuple[bool, bool], expected: set[SplitReason]
) -> None:
    """By one that has a weight; where none is ready the key's own says so."""
    chosen = [choose(key, parts(**weights), ready) for key in KEYS]

    assert {why for _, why in chosen} == expected
    if SplitReason.FALLBACK in expected:
        assert {part.model for part, _ in chosen} == {"blue/a"}
    assert all(part.weight for part, _ in chosen)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        pytest.param("{", "Invalid JSON", id="text"),
        pytest.param({}, "a valid array", id="object"),
        pytest.param([{"name": "v"}], r"0\.models\s+Field required", id="fields"),
        pytest.param([{"name": "v", "also": 1}], r"0\.also\s+Unexpected", id="another-field"),
        pytest.param([{"name": "a/b", "models": []}], r"0\.name\s+String should match", id="name"),
        pytest.param([{"name": "v", "models": []}], "every weight is 0", id="no-models"),
        pytest.param(
            [{"name": "v", "models": [{"model": "x", "weight": 1}]}],
            r"models\.0\.model\s+String should match",
            id="model",
        ),
        *(
            pytest.param(
                [{"name": "v", "models": [{"model": "a/x", "weight": weight}]}], message, id=name
            )
            for weight, message, name in (
                (101, r"0\.weight\s+Input should be less than or equal to 100", "heavy"),
                (-1, r"0\.weight\s+Input should be greater than or equal to 0", "negative"),
                (True, r"0\.weight\s+Input should be a valid integer", "true"),
                (0.5, r"0\.weight\s+Input should be a valid integer", "half"),
                (0, "every weight is 0", "all-zero"),
            )
        ),
        pytest.param(
            [{"name": "v", "models": [{"model": "a/x", "weight": 1}] * 2}], "more than", id="twice"
        ),
    ],
)
def test_what_is_no_split_is_refused(written: object, message: str) -> None:
    text = written if isinstance(written, str) else json.dumps(written)
    with pytest.raises(ValueError, match=message):
        read_splits(text.encode())


def test_a_split_reads_what_all_of_its_models_read() -> None:
    """A request may reach any of them; where one has no plan yet nothing is known."""
    split = Split("v", tuple(parts(old=90, new=10)))
    both = ("text", "image")

    def listed(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
        models = [replace(OLD, modalities=old), replace(NEW, modalities=new)]
        return Catalog(models, [split]).entry("v").modalities

    assert listed(both, ("text", "image", "audio")) == both
    assert listed(both, ("text",)) == ("text",)
    assert listed(both, ()) == listed((), both) == ()


def test_a_split_has_the_name_of_a_model() -> None:
    split = Split("old", tuple(parts(old=90, new=10)))
    catalog = Catalog([OLD, NEW, Model("green", "x", created=7)], [split])

    assert [one.id for one in catalog.listed()] == ["old", "new", "poet", "blue/old", "x"]
    assert [target.model for _, target in catalog.split("old")] == [OLD, NEW]
    assert catalog.split("blue/old") == []
    assert [catalog.entry(one).id for one in ("old", "blue/old", "blue/new")] == [
        "old",
        "blue/old",
        "new",
    ]


def test_models_that_are_not_there_get_nothing() -> None:
    """They are named; the others of the split answer, and without any the name means nothing."""
    split = Split("v", (Part("blue/old", 0), Part("blue/gone", 50), Part("blue/new:poet", 50)))

    catalog = Catalog([OLD, NEW], [split])
    assert [target.served for _, target in catalog.split("v")] == ["old", "new:poet"]
    assert list(catalog.unknown()) == ["the split 'v' names 'blue/gone', which is no model"]

    with pytest.raises(UnknownModelError) as refused:
        Catalog([OLD], [split]).split("v")
    assert refused.value.message == (
        "The model 'v' stands for 'blue/gone', 'blue/new:poet', and none of them exists."
    )
    assert "v" not in [one.id for one in Catalog([], [split]).listed()]


def test_a_version_whose_replicas_fail_is_stood_in_for() -> None:
    """Without ready replicas, or with ejected ones alone; afterwards its chats come back."""
    metrics, now = RouterMetrics(), [0.0]
    holds = Holds(HoldLimits(0, 0, 0.0), metrics, lambda: now[0])
    fleet = Fleet(metrics, holds, lambda: now[0])
    fleet.set_models([OLD, NEW])
    fleet.set_splits([Split("v", tuple(parts(old=50, new=50)))])
    fleet.set_replicas(OLD.key, ["old:1"])
    keys = KEYS[:40]

    def answering() -> set[str]:
        return {fleet.target("v", key).served for key in keys}

    assert answering() == {"old"}
    fleet.set_replicas(NEW.key, ["new:1"])
    assert answering() == {"old", "new"}
    fleet.failed(NEW.key, "new:1", Failure.UNREACHABLE)
    assert answering() == {"old"}
    now[0] += 60
    assert answering() == {"old", "new"}
    fallbacks = metrics.registry.get_sample_value(
        "mm_router_splits_total", {"model": "blue/old", "split": "v", "by": "fallback"}
    )
    assert fallbacks
    assert fleet.target("blue/new", keys[0]).served == "new"


async def test_another_file_is_another_weight(tmp_path: Path) -> None:
    """What was read is reported once; a file that cannot be read changes nothing."""
    path, seen = tmp_path / "splits.json", list[tuple[Split, ...]]()
    file = FollowedFile(path, read_splits, seen.append)
    with pytest.raises(FileNotFoundError):
        file.load()

    path.write_text(json.dumps([{"name": "v", "models": [{"model": "a/x", "weight": 1}]}]))
    file.load()
    file.load()
    assert seen == [(Split("v", (Part("a/x", 1),)),)]

    path.write_text("[")
    with pytest.raises(ValueError, match="Invalid JSON"):
        file.load()
    assert len(seen) == 1
    path.write_text("[]")
    file.load()
    assert seen[1:] == [()]


async def test_clients_of_one_name_meet_two_models(tmp_path: Path) -> None:
    """Turns of a chat have one version; weight 0 takes no new request, and its stream ends."""
    engines = {name: ScriptedEngine(gate=asyncio.Event()) for name in ("old", "new")}
    old, new = (toy_gateway(tmp_path / name, engine) for name, engine in engines.items())
    models = [Model("blue", MODEL), Model("green", MODEL)]
    names = [f"{one.namespace}/{one.name}" for one in models]
    async with (
        serve(old) as first,
        serve(new) as second,
        route(
            dict(zip(models, ([address_of(first)], [address_of(second)]), strict=True))
        ) as router,
        httpx.AsyncClient(base_url=router.url, timeout=60) as client,
    ):
        fleet = router.router.fleet
        fleet.set_splits([Split("public", (Part(names[0], 0), Part(names[1], 1)))])
        body = {"model": "public", "messages": [{"role": "user", "content": "hello"}]}
        streamed = asyncio.ensure_future(
            client.post("/v1/chat/completions", json=body | {"stream": True})
        )
        await eventually_async(lambda: engines["new"].running == 1)
        fleet.set_splits([Split("public", (Part(names[0], 1), Part(names[1], 0)))])
        for engine in engines.values():
            assert engine.gate is not None
            engine.gate.set()
        answers = [await client.post("/v1/chat/completions", json=body) for _ in range(3)]

        assert (await streamed).text.endswith("data: [DONE]\n\n")
        assert [one.status_code for one in answers] == [200] * 3
        assert [len(engine.requests) for engine in engines.values()] == [3, 1]
        labels = {"split": "public", "by": "weight"}
        assert router.count("mm_router_splits_total", model=names[0], **labels) == 3
        assert (await client.get("/v1/models/public")).json()["id"] == "public"
