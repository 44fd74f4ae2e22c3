"""`store gc --unused-for`: an engine goes when no sweep has kept it for so long."""

from datetime import UTC, datetime, timedelta

from mm_api.documents.engine_manifest import EngineManifest
from mm_runtime.store.engines import EngineStore
from mm_runtime.store.garbage_collection import collect

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def sweep(store: EngineStore, keep: list[str], at: datetime) -> list[str]:
    """Collect what was not kept for a day, at some time; return what went."""
    return collect(store, at, keep=keep, unused_for=timedelta(days=1)).removed


def test_what_was_not_kept_for_long_goes(store: EngineStore, plans: list[EngineManifest]) -> None:
    """The time counts from the first sweep that did not keep an engine, whatever its age."""
    kept, other = plans[0].fingerprint, plans[1].fingerprint
    hours = [0, 23, 25]
    gone = [sweep(store, [kept], NOW + timedelta(hours=hour)) for hour in hours]
    assert gone == [[], [], [other]]
    assert store.fingerprints() == [kept]


def test_an_engine_that_is_kept_again_starts_over(
    store: EngineStore, plans: list[EngineManifest]
) -> None:
    """A sweep that keeps an engine forgets that no one had needed it."""
    both = [one.fingerprint for one in plans]
    gone = [
        sweep(store, keep, NOW + timedelta(hours=hour))
        for hour, keep in ((0, both[:1]), (12, both), (25, both[:1]))
    ]
    assert gone == [[], [], []]


def test_an_engine_that_was_taken_meanwhile_stays(
    store: EngineStore, plans: list[EngineManifest]
) -> None:
    """Between looking and removing a build may have found the engine: it took the note away."""
    wanted = plans[0].fingerprint
    store.note_unused(wanted, NOW)
    store.used(wanted)
    assert not store.remove_unused(wanted, NOW + timedelta(days=9))
    assert wanted in store.fingerprints()
