"""What is sent: intents without empty opinions, statuses and owners as differences."""

from typing import Any

from mm_operator.children.metadata import FORMER_OWNERS
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.intent import Intent, make_intent
from mm_operator.cluster.owners import Change, change_between, owners_in
from mm_operator.reconcile import merge_patch
from support.cases import cases
from support.shared_objects import config


def test_none_is_no_opinion() -> None:
    intent = make_intent({**config("a"), "spec": {"x": None, "y": [{"z": None, "w": 1}]}})

    assert intent.body["spec"] == {"y": [{"w": 1}]}


def test_owners_do_not_change_the_digest() -> None:
    alone, shared = make_intent(config("a")), make_intent(config("a", "b"))

    assert alone.digest == shared.digest
    assert alone.digest != make_intent(config("a", x="1")).digest
    assert set(shared.owners) == {"a-uid", "b-uid"}


@cases(
    "old new expected",
    {
        "equal": ({"a": 1}, {"a": 1}, {}),
        "new": ({}, {"a": 1}, {"a": 1}),
        "gone": ({"a": 1}, {}, {"a": None}),
        "nested": ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        "entire-lists": ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
    },
)
def test_status_patches(old: dict[str, Any], new: dict[str, Any], expected: Any) -> None:
    assert merge_patch(old, new) == expected


def change(intent: Intent, add: str = "", remove: str = "") -> Change:
    added = {f"{add}-uid": {"name": add, "uid": f"{add}-uid"}} if add else {}
    return Change(intent, added, frozenset({f"{remove}-uid"} if remove else ()))


@cases(
    "first second expected",
    {
        "both-join": (("a", ""), ("b", ""), {"x", "a", "b"}),
        "joins-and-leaves": (("a", ""), ("", "a"), {"x"}),
        "leaves-and-comes-back": (("", "x"), ("x", ""), {"x"}),
        "one-leaves-one-joins": (("", "x"), ("a", ""), {"a"}),
    },
)
def test_changes_of_owners_add_up(
    first: tuple[str, str], second: tuple[str, str], expected: set[str]
) -> None:
    intent = make_intent(config("x"))
    both = change(intent, *first).then(change(intent, *second))
    owners = both.applied_to({"x-uid": {"name": "x", "uid": "x-uid"}})

    assert {owner["name"] for owner in owners.values()} == expected


def test_a_model_that_joins_or_leaves_leaves_the_others() -> None:
    """An intent for what models share says who comes and who goes; the owners there stay."""
    cache = Cache()
    cache.put("ConfigMap", config("a", "b"))
    live = cache.find("ConfigMap", "demo", "engine-1")
    joins = change_between(live, make_intent(config("m")))
    document = config("a")
    document["metadata"][FORMER_OWNERS] = ["b-uid", "gone-uid"]
    leaves = change_between(live, make_intent(document))

    assert set(joins.applied_to(owners_in(live))) == {"a-uid", "b-uid", "m-uid"}
    assert set(leaves.applied_to(owners_in(live))) == {"a-uid"}
    assert not change_between(live, make_intent(config("b")))
    assert FORMER_OWNERS not in make_intent(document).body["metadata"]
