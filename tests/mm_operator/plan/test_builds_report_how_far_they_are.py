"""What a model says of its build: its own, of another model, of another user of the store."""

from datetime import timedelta
from typing import Any

from mm_api import labels
from mm_api.documents.build_result import PROGRESS_MARK, BuildProgress, BuildResult, last_progress
from mm_operator.model import JobPhase, Outcome, Snapshot
from mm_operator.plan import decide
from mm_operator.status.derive import derive
from mm_operator.status.events import transitions
from support.cases import cases
from support.imagined_cluster import ImaginedCluster
from support.models import EPOCH, tiny_facts

PRINT = "0" * 64
STARTED = EPOCH + timedelta(seconds=7)


def progress(**fields: Any) -> BuildProgress:
    steps = {"fetch": 1.0, "convert": 2.0}
    base = {"fingerprint": PRINT, "step": "export", "number": 3, "of": 5, "step_seconds": steps}
    return BuildProgress.model_validate(base | fields)


def two_models() -> ImaginedCluster:
    cluster = ImaginedCluster()
    for name in ("one", "two"):
        cluster.apply(name)
        cluster.inspected(tiny_facts())
    return cluster


def build_status(cluster: ImaginedCluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.models[name].status["build"]
    return found


def test_progress_of_a_running_build_is_reported() -> None:
    cluster = two_models()
    cluster.follow("engine-", progress(percent=43), started=STARTED)
    reported = build_status(cluster, "one")
    assert [
        reported.get(key) for key in ("phase", "step", "progress", "startedAt", "stepSeconds")
    ] == [
        "Building",
        "export",
        "3 of 5, 40 %",
        "2026-01-02T03:04:12Z",
        {"fetch": 1.0, "convert": 2.0},
    ]
    moved = progress(percent=43, total_bytes=27 << 29, step="fetch", number=1)
    cluster.follow("engine-", moved, started=STARTED)
    assert build_status(cluster, "one")["progress"] == "1 of 5, 40 % of 13.5 GiB"


def test_waiters_say_whom_they_wait_for() -> None:
    cluster = two_models()
    cluster.follow("engine-", progress(), started=STARTED)
    waiting = build_status(cluster, "two")
    cluster.delete("one")
    alone = build_status(cluster, "two")
    assert (waiting["phase"], waiting["message"]) == (
        "Waiting",
        "model demo/one builds this engine: the engine is being built",
    )
    assert (alone["phase"], alone["message"]) == ("Building", "the engine is being built")


def test_a_build_that_waits_in_the_store_names_its_holder() -> None:
    cluster = two_models()
    waits = BuildProgress(fingerprint=PRINT, waiting_for="other/engine-1")
    cluster.follow("engine-", waits, started=STARTED)
    reported = build_status(cluster, "one")
    assert (reported["phase"], reported["message"]) == (
        "Waiting",
        "other/engine-1 builds this engine in the same store",
    )
    assert cluster.conditions("one")["EngineBuilt"] == "False WaitingForBuild"


def test_the_second_model_reuses_without_a_job() -> None:
    """`reusedFrom` names the model that built the engine, which may be gone; that one has none."""
    cluster = two_models()
    cluster.built()
    assert "reusedFrom" not in build_status(cluster, "one")
    cluster.delete("one")
    cluster.apply("three")
    cluster.inspected(tiny_facts())
    reported = {name: build_status(cluster, name).get("reusedFrom") for name in ("two", "three")}
    assert reported == {"two": "demo/one", "three": "demo/one"}
    assert "jobName" not in build_status(cluster, "three")


def test_an_engine_of_the_store_is_reported() -> None:
    cluster = two_models()
    cluster.delete("two")
    cluster.built(reused=True)
    assert build_status(cluster, "one")["reusedFrom"] == "store"


def test_each_step_becomes_one_event() -> None:
    cluster = two_models()
    cluster.follow("engine-", progress(), started=STARTED)
    cluster.follow("engine-", progress(number=4, step="verify"), started=STARTED)
    cluster.built()
    events = [line.strip() for line in cluster.log if "BuildStepFinished" in line]
    assert events == [
        "one: Normal BuildStepFinished: EngineBuilt: step fetch took 1.0 s",
        "one: Normal BuildStepFinished: EngineBuilt: step convert took 2.0 s",
    ]


def test_a_changed_percentage_alone_is_no_event() -> None:
    """Progress within a step changes the status in steps of five percent, and reports nothing."""
    cluster = two_models()
    seen = []
    for percent in (40, 44, 45):
        cluster.follow("engine-", progress(percent=percent), started=STARTED)
        seen.append(cluster.models["one"].status)
    assert seen[0] == seen[1]
    assert (seen[1] != seen[2], transitions(seen[1], seen[2])) == (True, ())


@cases(
    "log step",
    {
        "empty": ("", None),
        "other-lines": ("a line\nanother", None),
        "last": (f"x {progress(step='a').line()}\n{progress(step='b').line()}", "b"),
        "cut": (f"{progress(step='a').line()}\n{PROGRESS_MARK}{{", "a"),
        "no-fingerprint": (f'{PROGRESS_MARK}{{"step": "x"}}', None),
    },
)
def test_the_newest_complete_line_counts(log: str, step: str | None) -> None:
    found = last_progress(log)
    assert (found.step if found else None) == step


def test_statuses_of_waiters_are_derived_alike() -> None:
    cluster = two_models()
    cluster.follow("engine-", progress(), started=STARTED)
    snapshot: Snapshot = cluster.snapshot("two")
    assert derive(snapshot, decide(snapshot), Outcome()) == snapshot.status


def test_jobs_report_their_model() -> None:
    cluster = two_models()
    job = cluster.jobs[cluster.job("engine-")]
    assert (job.phase, job.annotations[labels.MADE_FOR]) == (JobPhase.PENDING, "one")


def test_results_of_older_runtimes_are_read() -> None:
    text = f'{{"fingerprint": "{PRINT}", "manifestSha256": "{PRINT}"}}'
    assert BuildResult.from_json(text).stored_bytes is None
