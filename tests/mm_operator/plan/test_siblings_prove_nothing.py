"""What other namespaces record of an engine: waited for by consent and for a time, never used."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mm_api import labels
from mm_api.contract import PLAN_FILE
from mm_api.documents.build_result import BuildResult
from mm_api.v1alpha1 import duration
from mm_operator.model import (
    ConfigState,
    EngineState,
    JobPhase,
    JobState,
    Plan,
    Sibling,
    Snapshot,
    Step,
    StoredEngine,
)
from mm_operator.plan import decide
from mm_operator.plan.collection import store_key
from mm_operator.plan.records import BUILT_AT_KEY, DAMAGE_KEY, RESULT_KEY
from support.cases import cases
from support.models import SETTINGS, spec_of
from support.staged import inspected

BUCKET = {"build": {"store": {"s3": {"bucket": "weights", "region": "eu-west-1"}}}}
PARTNERS = replace(SETTINGS, sharing=(frozenset({"other", "demo"}),))
STRANGERS = replace(
    SETTINGS, sharing=(frozenset({"other", "third"}), frozenset({"demo", "fourth"}))
)
LONG = "9" * 5000
NO_TIMES = [
    pytest.param("not a time", id="text"),
    pytest.param("2026-01-01T00:00:00", id="no-zone"),
    pytest.param(LONG, id="long"),
]


class _Everything(Mapping[str, Any]):
    """Says the same under whatever key: an attacker's records have every label."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __getitem__(self, _key: str) -> Any:
        return self._value

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def stage(
    settings: Any, *, data: Mapping[str, str] | None = None, job: JobState | None = None
) -> Plan:
    """Return the plan of a model in `demo` beside another namespace's record and Job."""
    snapshot, _ = inspected(BUCKET, settings=settings)
    sibling = Sibling(
        "other", ConfigState("engine-x", "uid-of-x", data=dict(data or {})), (job,) if job else ()
    )
    observed = replace(snapshot.observed, siblings=_Everything((sibling,)))
    return decide(replace(snapshot, namespace="demo", observed=observed))


def job_of(snapshot: Snapshot, *, age: timedelta, attempt: str = "1") -> JobState:
    return JobState(
        "engine-x-1",
        "uid-of-the-job",
        JobPhase.RUNNING,
        snapshot.now - age,
        annotations={labels.ATTEMPT: attempt},
        namespace="other",
    )


FORGED = {BUILT_AT_KEY: "2999-01-01T00:00:00+00:00", DAMAGE_KEY: "[" * 100, PLAN_FILE: "{}"}


@pytest.mark.parametrize("settings", [PARTNERS, STRANGERS, SETTINGS], ids=["in", "out", "none"])
@pytest.mark.parametrize("when", [pytest.param("2999-01-01T00:00:00+00:00", id="far"), *NO_TIMES])
def test_a_foreign_result_is_no_result(settings: Any, when: str) -> None:
    """A success that someone else recorded starts our own Job, which looks into the store."""
    snapshot, plan = inspected(BUCKET)
    assert plan.build_plan is not None
    fingerprint = plan.build_plan.fingerprint
    result = BuildResult(fingerprint=fingerprint, manifest_sha256="ab" * 32).to_json()
    found = stage(settings, data={**FORGED, BUILT_AT_KEY: when, RESULT_KEY: result})
    assert snapshot.spec is not None
    assert (found.build.step, found.build.result) == (Step.START, None)


@cases(
    "settings age attempt expected",
    {
        "of-a-partner": (PARTNERS, 0.1, "1", Step.WAITING),
        "attempt-without-end": (PARTNERS, 0.1, LONG, Step.WAITING),
        "longer-than-our-own-may-take": (PARTNERS, 1.1, "1", Step.START),
        "of-no-partner": (STRANGERS, 0.1, "1", Step.START),
        "no-model-shares": (SETTINGS, 0.1, "1", Step.START),
    },
)
def test_a_foreign_build_is_waited_for_by_consent(
    settings: Any, age: float, attempt: str, expected: Step
) -> None:
    """Its Job holds ours up for the time that one of ours may take, and only of a partner."""
    snapshot, _ = inspected(BUCKET)
    timeout = duration.parse(spec_of(BUCKET).build.timeout)
    plan = stage(settings, job=job_of(snapshot, age=age * timeout, attempt=attempt))
    assert plan.build.step is expected


def test_without_partners_nothing_is_marked() -> None:
    """No label, so no Lease and no waking: the namespace is alone in its store."""
    assert stage(SETTINGS).shared_engine == ""
    assert stage(PARTNERS).shared_engine != ""


@pytest.mark.parametrize("when", NO_TIMES)
def test_a_time_that_is_none_stops_nothing(when: str) -> None:
    """Also in the model's own ConfigMap: the engine counts as built some time ago."""
    snapshot, plan = inspected(BUCKET, built=True)
    engine = snapshot.observed.engines[plan.engine_config]
    assert engine.config is not None
    config = replace(engine.config, data={**engine.config.data, BUILT_AT_KEY: when})
    observed = replace(snapshot.observed, engines={plan.engine_config: EngineState(config)})
    found = decide(replace(snapshot, observed=observed))
    assert (found.build.step, found.build.built_at) == (Step.DONE, None)


@cases("settings swept", {"of-a-partner": (PARTNERS, False), "of-no-partner": (STRANGERS, True)})
def test_a_damaged_record_of_others_holds_up_no_sweep(settings: Any, *, swept: bool) -> None:
    """What it keeps is not known, which counts where the administrator said that they share."""
    store = {**BUCKET["build"]["store"], "gcAfter": "1h"}
    snapshot, _ = inspected({"build": {"store": store}}, built=True, settings=settings)
    assert snapshot.spec is not None
    here = replace(snapshot, namespace="demo")
    assert here.spec is not None
    owner = next(iter(here.observed.engines.values())).config
    assert owner is not None
    engines = (StoredEngine("other", ConfigState("engine-x", "uid-of-x", data=FORGED)),)
    key = store_key(here, here.spec)
    observed = replace(
        here.observed,
        stored={key: engines},
        sweepers={key: type(owner.owners[0])(here.name, here.uid)},
    )
    assert decide(replace(here, observed=observed)).collection.start is swept
