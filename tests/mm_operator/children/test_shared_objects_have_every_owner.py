"""What models share is owned by all of them and rewritten by none."""

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

from mm_api.documents.build_plan import BuildPlan
from mm_operator.children.all import build, unwanted
from mm_operator.children.metadata import FORMER_OWNERS
from mm_operator.model import ClaimState, JobPhase, JobState, Plan, PodEnd, Ref, Snapshot
from mm_operator.plan import decide
from support.cases import cases
from support.staged import children, inspected


def rewritten(stage: tuple[Snapshot, Plan], text: str) -> str:
    snapshot, plan = stage
    engine = snapshot.observed.engines[plan.engine_config]
    config = replace(engine.config, data={**engine.config.data, "plan.json": text})
    state = replace(engine, config=config)
    observed = replace(snapshot.observed, engines={plan.engine_config: state})
    data = children((replace(snapshot, observed=observed), plan))["ConfigMap/build"]["data"]
    written: str = data["plan.json"]
    return written


def test_recorded_plan_is_kept() -> None:
    """Two ways to one engine must not rewrite each other's plan."""
    _, plan = stage = inspected(built=True)
    recorded = plan.build_plan.model_copy(update={"allow_pickle": True})
    assert recorded == BuildPlan.from_json(rewritten(stage, recorded.to_json()))


def test_a_starting_job_gets_its_own_models_plan() -> None:
    """What the model's spec forbids is not built because it stands in a recorded plan."""
    _, plan = stage = inspected()
    recorded = plan.build_plan.model_copy(update={"allow_pickle": True})
    text = rewritten(stage, recorded.to_json())
    job = children(stage)["Job/build"]
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert BuildPlan.from_json(text) == plan.build_plan
    assert sha256(text.encode()).hexdigest() == arguments[arguments.index("--plan-sha256") + 1]


def test_a_plan_under_anothers_fingerprint_is_not_kept() -> None:
    _, plan = stage = inspected(built=True)
    other = plan.build_plan.engine.model_copy(update={"dtype": "float64"})
    recorded = plan.build_plan.model_copy(update={"engine": other})
    assert plan.build_plan == BuildPlan.from_json(rewritten(stage, recorded.to_json()))


def test_existing_store_keeps_what_it_has() -> None:
    """A claim is made by the first model; others with other wishes do not fight about it."""
    found = ClaimState("multimodal-store", "Bound", "7Gi", "fast", ("ReadWriteMany",))
    snapshot, plan = inspected({"build": {"store": {"size": "1Gi"}}})
    observed = replace(snapshot.observed, store=found)
    claim = children((replace(snapshot, observed=observed), plan))["PersistentVolumeClaim/store"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "7Gi"}},
        "storageClassName": "fast",
    }


def test_a_model_joins_the_owners_of_the_store() -> None:
    """The claim goes with the last model that uses it; who does so no longer is taken out."""
    snapshot, plan = inspected()
    leaving = replace(snapshot, store_leavers=frozenset({"uid-a"}))
    metadata = children((leaving, plan))["PersistentVolumeClaim/store"]["metadata"]
    owners = [owner["name"] for owner in metadata["ownerReferences"]]
    assert (owners, metadata[FORMER_OWNERS]) == (["llava"], ["uid-a"])


def test_claims_of_users_are_never_made() -> None:
    changes = {"build": {"store": {"persistentVolumeClaim": {"claimName": "mine"}}}}
    assert "PersistentVolumeClaim/store" not in children(inspected(changes))


def test_frozen_plans_touch_nothing() -> None:
    snapshot, _ = inspected(built=True)
    observed = replace(snapshot.observed, refs=frozenset({Ref("Deployment", "llava")}))
    broken = replace(snapshot, spec=None, observed=observed)
    plan = decide(broken)
    assert (build(broken, plan), unwanted(broken, plan, ())) == ((), ())


def test_released_engine_that_is_gone_already_needs_nothing() -> None:
    """Caches may name an engine that was deleted a moment ago."""
    snapshot, _ = inspected()
    observed = replace(snapshot.observed, owned_engines=frozenset({"engine-old"}))
    stage = replace(snapshot, observed=observed)
    plan = decide(stage)
    assert (plan.release, unwanted(stage, plan, build(stage, plan))) == (("engine-old",), ())


@cases(
    "phase reported stays",
    {
        "complete": (JobPhase.SUCCEEDED, False, True),
        "its-pod-reported-the-result": (JobPhase.RUNNING, True, True),
        "still-builds-what-is-there": (JobPhase.RUNNING, False, False),
    },
)
def test_a_job_that_built_the_engine_stays(phase: JobPhase, *, reported: bool, stays: bool) -> None:
    """Its log can be read for a day, also when Kubernetes is slow to say that it is complete."""
    snapshot, plan = inspected(built=True)
    engine = snapshot.observed.engines[plan.engine_config]
    ends = (PodEnd("pod", succeeded=True, exit_code=0),) if reported else ()
    job = JobState(
        f"{plan.engine_config}-1",
        "uid-of-the-job",
        phase,
        datetime(2026, 1, 1, tzinfo=UTC),
        ends=ends,
        owner_uid=engine.config.uid,
    )
    engines = {plan.engine_config: replace(engine, jobs=(job,))}
    observed = replace(snapshot.observed, engines=engines)
    stage = replace(snapshot, observed=observed)
    gone = unwanted(stage, plan, build(stage, plan))
    assert stays == (Ref("Job", job.name) not in gone)
