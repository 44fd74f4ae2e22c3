"""Owners of what models share cost one write, which waits only while enough of the others stay."""

import asyncio

import pytest

from mm_operator.children.metadata import FORMER_OWNERS
from mm_operator.cluster.cache import Cache, Cached
from mm_operator.cluster.intent import Intent, make_intent
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.owners import FEW_OWNERS, OwnerWriter, change_between
from support.eventually import eventually_async
from support.model_documents import document
from support.shared_objects import config

ADDRESS = ("ConfigMap", "demo", "engine-1")
OWNERS = tuple(f"o{number}" for number in range(FEW_OWNERS))
WITHOUT_END = 600.0


class Site:
    """A ConfigMap with owners, the models that exist, and what a writer does."""

    def __init__(self, *owners: str, gone: int = 0) -> None:
        self.cache, self.models = Cache(), ModelCache()
        self.cache.put("ConfigMap", config(*owners))
        for name in owners[gone:]:
            self.put_model(name)
        self.sent: list[Intent] = []
        self.woken: list[Key] = []

    @property
    def live(self) -> Cached:
        return self.cache.find(*ADDRESS)

    def put_model(self, name: str, version: int = 1, **metadata: str) -> None:
        made = document(name=name)
        made["metadata"] |= {"namespace": "demo", "uid": f"{name}-uid", "generation": 1}
        made["metadata"] |= {"resourceVersion": str(version), **metadata}
        made["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z"}
        self.models.put(made)

    def writer(self, seconds: float, *, same_content: bool = True) -> OwnerWriter:
        return OwnerWriter(
            self.cache,
            self.models,
            same_content=lambda _live, _intent: same_content,
            send=self._send,
            wake=self.woken.append,
            delay_seconds=seconds,
        )

    def join(self, writer: OwnerWriter, name: str) -> bool:
        change = change_between(self.live, make_intent(config(name)))
        return writer.defer(ADDRESS, change, self.live)

    async def _send(self, intent: Intent, version: int) -> None:
        assert version == 1
        self.sent.append(intent)


async def test_one_write_for_many_models() -> None:
    site = Site(*OWNERS)
    writer = site.writer(0.01)
    names = [f"m{number}" for number in range(10)]
    assert all(site.join(writer, name) for name in names)
    await eventually_async(lambda: len(site.woken) == len(names))
    await writer.close()

    [intent] = site.sent
    assert {owner["name"] for owner in intent.owners.values()} == {*OWNERS, *names}
    assert set(site.woken) == {Key("demo", name) for name in names}


async def test_newer_content_is_not_written_over() -> None:
    """When a sibling recorded something meanwhile, nothing is sent and the models decide again."""
    site = Site(*OWNERS)
    writer = site.writer(0.01, same_content=False)
    assert site.join(writer, "m")
    await eventually_async(lambda: bool(site.woken))
    await writer.close()

    assert (site.woken, site.sent) == ([Key("demo", "m")], [])


@pytest.mark.parametrize(
    ("owners", "gone", "waits"),
    [(1, 0, False), (FEW_OWNERS, 0, True), (FEW_OWNERS, 1, False), (FEW_OWNERS + 1, 1, True)],
    ids=["few", "many", "few-stay", "many-stay"],
)
async def test_a_new_owner_of_few_does_not_wait(owners: int, gone: int, *, waits: bool) -> None:
    """The object would go with the last of them, and its new owner's engine in it."""
    site = Site(*(f"o{number}" for number in range(owners)), gone=gone)
    writer = site.writer(WITHOUT_END)
    assert site.join(writer, "m") == waits
    await writer.close()


async def test_an_owner_that_only_leaves_waits() -> None:
    """Nothing is lost by it, however few stay."""
    site = Site("o0")
    leaves = config()
    leaves["metadata"][FORMER_OWNERS] = ["o0-uid"]
    writer = site.writer(WITHOUT_END)
    assert writer.defer(ADDRESS, change_between(site.live, make_intent(leaves)), site.live)
    await writer.close()


@pytest.mark.parametrize(
    "change",
    [{"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"uid": "another"}],
    ids=["being-deleted", "made-again"],
)
async def test_who_is_about_to_go_does_not_count(change: dict[str, str]) -> None:
    """Nor does another model of an owner's name."""
    site = Site(*OWNERS)
    site.put_model(OWNERS[0], 2, **change)
    writer = site.writer(WITHOUT_END)
    assert not site.join(writer, "m")
    await writer.close()


async def test_the_delay_ends_when_few_owners_are_left() -> None:
    """The last of them may go before it has passed."""
    site = Site(*OWNERS, "one-more")
    writer = site.writer(WITHOUT_END)
    assert site.join(writer, "m")
    site.models.remove(Key("demo", "one-more"), "one-more-uid")
    await asyncio.sleep(0)
    assert site.sent == []
    site.models.remove(Key("demo", OWNERS[0]), f"{OWNERS[0]}-uid")
    await eventually_async(lambda: bool(site.woken))
    await writer.close()

    assert "m-uid" in site.sent[0].owners
