"""A memory pool that a server found full makes its model Degraded, with what would do."""

from dataclasses import replace
from typing import Any

from mm_api.conditions import ConditionType
from mm_api.documents.server_state import Pool, PoolState, Role, ServerState
from mm_operator.model import Outcome, Plan, PodState, Snapshot
from mm_operator.status.derive import derive
from mm_operator.status.events import transitions
from support.cases import cases
from support.staged import inspected, planned

CUDA = 64 << 20
QUIET = ServerState(pools=[PoolState(pool="cuda", planned_bytes=CUDA)])


def full(
    pool: Pool = "cuda", *, size: int = CUDA, times: int = 1, role: Role = Role.SERVER
) -> ServerState:
    return ServerState(role=role, pools=[PoolState(pool=pool, planned_bytes=size, full=times)])


def served(
    *servers: ServerState, pods: int = 3, changes: dict[str, Any] | None = None
) -> tuple[Snapshot, Plan]:
    """Return a model with so many pods, some of whose servers said something."""
    snapshot, plan = inspected(changes, built=True)
    digest = plan.rollout.serving_hash
    every = (PodState(digest, "Running", ready=True),) * pods
    observed = replace(snapshot.observed, pods=every)
    return planned(replace(snapshot, observed=observed, servers=servers))


def degraded(*stage: Any) -> dict[str, Any]:
    conditions: list[dict[str, Any]] = derive(*stage, Outcome())["conditions"]
    return next(one for one in conditions if one["type"] == ConditionType.DEGRADED)


def test_a_full_pool_says_whose_how_often_and_what_would_do() -> None:
    """Two of three servers: the pool, its size, the plan's numbers, the field with a new size."""
    stage = served(full(), full(times=2), changes={"engine": {"maxBatchSize": 2}})
    found = degraded(*stage)
    pool = stage[1].engine.pool if stage[1].engine else None
    assert pool is not None

    assert (found["status"], found["reason"]) == ("True", "MemoryPoolExhausted")
    assert found["message"] == (
        "The cuda pool of 67,108,864 bytes was full in 2 of 3 servers, 3 times (a server says so "
        "once, however often it happens): requests whose encoder output finds no room in it are "
        f"slower, or fail. The plan makes room for {pool.live_requests} requests of "
        f"{pool.table_bytes_per_request:,} bytes at once, as many as the gateway lets in; clients "
        "of Triton's own ports come on top. Set spec.runtime.memoryPools.cuda to 128Mi."
    )


@cases(
    "pods expected",
    {"one": (1, "in 1 of 1 server (a server"), "two": (2, "in 1 of 2 servers (a server")},
)
def test_servers_are_counted_in_the_message(pods: int, expected: str) -> None:
    """A pool that was full once in one server is no matter of times."""
    assert expected in degraded(*served(full(), pods=pods))["message"]


def test_the_size_that_would_do_holds_what_triton_takes() -> None:
    """Where Triton's own queue takes more than the gateway, the size is computed for that."""
    snapshot, plan = served(full())
    assert plan.engine is not None
    large = plan.engine.pool.model_copy(update={"table_bytes_per_request": 8 << 20, "factor": 1.25})
    plan = replace(plan, engine=replace(plan.engine, pool=large))
    limits = plan.engine.build_plan.engine.limits
    inside = plan.engine.serving_plan.max_queue_size + 2 * limits.max_batch_size
    # ceil512(k x N x S x f) + 1 MiB, entire MiB already.
    expected = inside * 10 + 1

    assert f"to {expected}Mi." in degraded(snapshot, plan)["message"]


def test_a_larger_pool_that_is_planned_is_reported_instead() -> None:
    """The field is raised already: the old pods' servers are all that still speaks of it."""
    changes = {"runtime": {"memoryPools": {"cuda": "256Mi"}}}
    message = degraded(*served(full(), changes=changes))["message"]

    assert message.endswith("The plan gives it 268,435,456 bytes by now, which new pods have.")
    assert "Set spec" not in message


def test_a_full_pinned_pool_names_its_own_field() -> None:
    message = degraded(*served(full(), full("pinned", size=256 << 20)))["message"]

    assert "Set spec.runtime.memoryPools.cuda to " in message
    assert message.endswith(
        "The pinned pool of 268,435,456 bytes was full in 1 of 3 servers (a server says so once, "
        "however often it happens): copies between host and GPU are slower. "
        "Set spec.runtime.memoryPools.pinned to 512Mi."
    )


def test_encoders_in_pods_of_their_own_are_distinguished() -> None:
    """One of two encoders: pinned memory has a field; what is in the CUDA pool is not planned."""
    snapshot, plan = served(full("pinned", role=Role.ENCODER), full(role=Role.ENCODER))
    pods = (PodState(plan.rollout.serving_hash, "Running", ready=True),) * 2
    snapshot = replace(snapshot, observed=replace(snapshot.observed, encoder_pods=pods))

    assert degraded(snapshot, plan)["message"] == (
        "The cuda pool of 67,108,864 bytes was full in 1 of 2 encoders (an encoder says so once, "
        "however often it happens): a plan puts nothing into it, because features leave as host "
        "memory. Let only the model's servers send tensors to the encoders' port. "
        "The pinned pool of 67,108,864 bytes was full in 1 of 2 encoders (an encoder says so once, "
        "however often it happens): copies between host and GPU are slower. The plan gives it "
        "268,435,456 bytes by now, which new pods have."
    )


def test_time_slices_in_place_of_mps_are_reported() -> None:
    """The fall-back works, and a person should know what it costs and how to end it."""
    found = degraded(*served(ServerState(sharing_problem="no daemon starts")))

    assert (found["status"], found["reason"]) == ("True", "MpsUnavailable")
    assert "no daemon starts" in found["message"]
    assert "spec.vision.sharing" in found["message"]


@cases("servers", {"no-server-reports": (), "all-is-well": (QUIET,)})
def test_without_trouble_nothing_is_reported(servers: tuple[ServerState, ...]) -> None:
    found = degraded(*served(*servers))

    assert (found["status"], found["reason"]) == ("False", "AsExpected")


def test_a_person_is_informed_by_an_event() -> None:
    """The change is one Warning with the condition's words."""
    before, after = (derive(*served(*said), Outcome()) for said in ((), (full(),)))
    events = transitions(before, after)

    assert [(one.type, one.reason) for one in events] == [("Warning", "MemoryPoolExhausted")]
