"""What servers said of trouble: a reason, and sentences with the field to change and to what."""

from collections.abc import Sequence

from mm_api.conditions import Reason
from mm_api.documents.server_state import Pool, PoolState, Role
from mm_api.sentences import a, count
from mm_operator.model import Plan, PodState, Snapshot
from mm_operator.plan.engine.pools import larger_pool_bytes
from mm_operator.plan.engine.units import MIB, ceil_to

_FIELDS: dict[Pool, str] = {
    "cuda": "spec.runtime.memoryPools.cuda",
    "pinned": "spec.runtime.memoryPools.pinned",
}
_COSTS: dict[Pool, str] = {
    "cuda": "requests whose encoder output finds no room in it are slower, or fail",
    "pinned": "copies between host and GPU are slower",
}

_ROLES = (Role.SERVER, Role.ENCODER)


def trouble(snapshot: Snapshot, plan: Plan) -> tuple[Reason, str] | None:
    """Return why a model's servers need attention; None when nothing is wrong."""
    found = (_full(pool, role, snapshot, plan) for role in _ROLES for pool in _FIELDS)
    pools = [text for text in found if text]
    if pools:
        return Reason.MEMORY_POOL_EXHAUSTED, " ".join(pools)
    problems = sorted({one.sharing_problem for one in snapshot.servers if one.sharing_problem})
    if problems:
        text = (
            f"encoder and language model take turns on the GPU, because MPS does not work there: "
            f"{'; '.join(problems)}. Tokens take two to three times as long while images are "
            "encoded: use an image and nodes with MPS, or set spec.vision.sharing to TimeSlicing "
            "to accept it."
        )
        return Reason.MPS_UNAVAILABLE, text
    if missing := sorted({one.kernel_problem for one in snapshot.servers if one.kernel_problem}):
        text = (
            "Each token takes several times as long as it should, because the kernels of the GPU "
            f"cannot be compiled in the pod: {'; '.join(missing)}. Use an image with package "
            "triton, its headers and a C compiler, as runtime/Dockerfile.cuda makes it."
        )
        return Reason.KERNELS_UNAVAILABLE, text
    return None


def _full(pool: Pool, role: Role, snapshot: Snapshot, plan: Plan) -> str:
    """Return the sentences about one pool; empty when no server found it full."""
    found = [
        one
        for server in snapshot.servers
        if server.role == role
        for one in server.pools
        if one.pool == pool and one.full
    ]
    if not found:
        return ""
    observed, in_encoders = snapshot.observed, role == Role.ENCODER
    present = max(one.planned_bytes for one in found)
    pods = observed.encoder_pods if in_encoders else observed.pods
    described = _described(pool, found, present, role, pods)
    if in_encoders and pool == "cuda":
        return (
            f"{described}: a plan puts nothing into it, because features leave as host memory. Let "
            "only the model's servers send tensors to the encoders' port."
        )
    room = "" if in_encoders else _room(pool, plan)
    return f"{described}: {_COSTS[pool]}. {room}{_advice(pool, present, plan)}"


def _described(
    pool: Pool, found: Sequence[PoolState], present: int, noun: Role, pods: Sequence[PodState]
) -> str:
    """Return whose pool of which size was full, and how often."""
    full, times = len(found), sum(one.full for one in found)
    every = max(full, sum(not pod.terminating for pod in pods))
    return (
        f"The {pool} pool of {present:,} bytes was full in {full} of "
        f"{count(every, noun)}{f', {times} times' if times > full else ''} "
        f"({a(noun)} says so once, however often it happens)"
    )


def _room(pool: Pool, plan: Plan) -> str:
    engine = plan.engine
    if pool != "cuda" or engine is None:
        return ""
    kept = engine.pool.bounded_by == "GatewayConcurrency"
    others = ", as many as the gateway lets in; clients of Triton's own ports come on top"
    return (
        f"The plan makes room for {engine.pool.live_requests} requests of "
        f"{engine.pool.table_bytes_per_request:,} bytes at once{others if kept else ''}. "
    )


def _advice(pool: Pool, present: int, plan: Plan) -> str:
    planned = 0
    if plan.serving_plan is not None:
        pools = plan.serving_plan.pools
        planned = pools.cuda_bytes if pool == "cuda" else pools.pinned_bytes
    if planned > present:
        return f"The plan gives it {planned:,} bytes by now, which new pods have."
    enough = present * 2
    if pool == "cuda" and plan.engine:
        enough = larger_pool_bytes(
            present,
            plan.engine.pool,
            queue=plan.engine.serving_plan.max_queue_size,
            batch=plan.engine.build_plan.engine.limits.max_batch_size,
        )
    return f"Set {_FIELDS[pool]} to {ceil_to(enough, MIB) // MIB}Mi."
