"""What is sent: intents without empty opinions, statuses as differences, owners together."""

from typing import Any

import pytest

from mm_api import labels
from mm_operator.children.metadata import FORMER_OWNERS
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.intent import Intent, make_intent
from mm_operator.cluster.keys import Key
from mm_operator.cluster.owners import FEW_OWNERS, Change, OwnerWriter, change_between, owners_in
from mm_operator.cluster.status_writer import merge_patch
from support.eventually import eventually_async


def config(*owners: str, version: int = 1, **data: str) -> dict[str, Any]:
    """Return a shared ConfigMap."""
    references = [
        {"apiVersion": labels.API_VERSION, "kind": labels.KIND, "name": name, "uid": f"{name}-uid"}
        for name in owners
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": "demo",
            "name": "engine-1",
            "uid": "e",
            "resourceVersion": str(version),
            "ownerReferences": references,
        },
        "data": data,
    }


def test_none_is_no_opinion() -> None:
    """Entries that are None are not sent: an apply would claim them."""
    intent = make_intent({**config("a"), "spec": {"x": None, "y": [{"z": None, "w": 1}]}})

    assert intent.body["spec"] == {"y": [{"w": 1}]}


def test_owners_do_not_change_the_digest() -> None:
    """Owners are shared state, compared by themselves; data does change the digest."""
    alone, shared = make_intent(config("a")), make_intent(config("a", "b"))

    assert alone.digest == shared.digest
    assert alone.digest != make_intent(config("a", x="1")).digest
    assert set(shared.owners) == {"a-uid", "b-uid"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1}, {}, id="equal"),
        pytest.param({}, {"a": 1}, {"a": 1}, id="new"),
        pytest.param({"a": 1}, {}, {"a": None}, id="gone"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}, id="nested"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}, id="entire-lists"),
    ],
)
def test_status_patches(old: dict[str, Any], new: dict[str, Any], expected: Any) -> None:
    """A status is written as its difference."""
    assert merge_patch(old, new) == expected


def change(intent: Intent, add: str = "", remove: str = "") -> Change:
    """Return a change of one owner each."""
    added = {f"{add}-uid": {"name": add, "uid": f"{add}-uid"}} if add else {}
    return Change(intent, added, frozenset({f"{remove}-uid"} if remove else ()))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(("a", ""), ("b", ""), {"x", "a", "b"}, id="both-join"),
        pytest.param(("a", ""), ("", "a"), {"x"}, id="joins-and-leaves"),
        pytest.param(("", "x"), ("x", ""), {"x"}, id="leaves-and-comes-back"),
        pytest.param(("", "x"), ("a", ""), {"a"}, id="one-leaves-one-joins"),
    ],
)
def test_changes_of_owners_add_up(
    first: tuple[str, str], second: tuple[str, str], expected: set[str]
) -> None:
    """Several models' changes become one; where they contradict, the later counts."""
    intent = make_intent(config("x"))
    both = change(intent, *first).then(change(intent, *second))
    owners = both.applied_to({"x-uid": {"name": "x", "uid": "x-uid"}})

    assert {owner["name"] for owner in owners.values()} == expected


async def test_owners_are_written_once_for_many_models() -> None:
    """Ten models that join within the delay cost one write, and each of them is woken."""
    cache, sent, woken = Cache(), list[Intent](), list[Key]()
    cache.put("ConfigMap", config("x"))
    live = cache.find("ConfigMap", "demo", "engine-1")
    assert live is not None

    async def send(intent: Intent, version: int) -> None:
        assert version == 1
        sent.append(intent)

    writer = OwnerWriter(
        cache, same_content=lambda _l, _i: True, send=send, wake=woken.append, delay_seconds=0.01
    )
    for number in range(10):
        intent = make_intent(config("x", f"m{number}"))
        writer.defer(("ConfigMap", "demo", "engine-1"), change_between(live, intent))
    await eventually_async(lambda: len(woken) == 10)
    await writer.close()

    assert len(sent) == 1
    assert len(sent[0].owners) == 11
    assert set(woken) == {Key("demo", f"m{number}") for number in range(10)}


async def test_owners_are_not_written_over_newer_content() -> None:
    """When a sibling recorded something meanwhile, nothing is sent and the models decide again."""
    cache, woken = Cache(), list[Key]()
    cache.put("ConfigMap", config("x"))
    live = cache.find("ConfigMap", "demo", "engine-1")
    assert live is not None

    async def send(_intent: Intent, _version: int) -> None:
        raise AssertionError("sent")

    writer = OwnerWriter(
        cache, same_content=lambda _l, _i: False, send=send, wake=woken.append, delay_seconds=0.01
    )
    intent = make_intent(config("x", "m"))
    writer.defer(("ConfigMap", "demo", "engine-1"), change_between(live, intent))
    await eventually_async(lambda: bool(woken))
    await writer.close()

    assert woken == [Key("demo", "m")]


def test_a_model_that_joins_or_leaves_leaves_the_others() -> None:
    """An intent for what models share says who comes and who goes; the owners there stay."""
    cache = Cache()
    cache.put("ConfigMap", config("a", "b"))
    live = cache.find("ConfigMap", "demo", "engine-1")
    assert live is not None
    joins = change_between(live, make_intent(config("m")))
    document = config("a")
    document["metadata"][FORMER_OWNERS] = ["b-uid", "gone-uid"]
    leaves = change_between(live, make_intent(document))

    assert set(joins.applied_to(owners_in(live))) == {"a-uid", "b-uid", "m-uid"}
    assert set(leaves.applied_to(owners_in(live))) == {"a-uid"}
    assert not change_between(live, make_intent(config("b")))
    assert FORMER_OWNERS not in make_intent(document).body["metadata"]


@pytest.mark.parametrize(
    ("owners", "documents", "expected"),
    [
        pytest.param(1, ("m",), False, id="few"),
        pytest.param(FEW_OWNERS, ("m",), True, id="many"),
        pytest.param(1, (), True, id="only-leaves"),
    ],
)
def test_owners_that_come_to_few_do_not_wait(
    owners: int, documents: tuple[str, ...], *, expected: bool
) -> None:
    """The object would go with the few, and its new owner's engine in it."""
    cache = Cache()
    names = [f"o{number}" for number in range(owners)]
    cache.put("ConfigMap", config(*names))
    live = cache.find("ConfigMap", "demo", "engine-1")
    assert live is not None
    document = config(*documents)
    document["metadata"][FORMER_OWNERS] = [] if documents else ["o0-uid"]

    assert expected == change_between(live, make_intent(document)).can_wait(live)
