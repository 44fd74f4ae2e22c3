"""One request in numbers: limits, pools and memory of an engine on one backend."""

from mm_operator.plan.engine.backend import Backend, Sizes
from mm_operator.plan.engine.limits import plan_limits
from mm_operator.plan.engine.pools import plan_pools
from mm_operator.plan.engine.request import PlanRequest, Target


def size(target: Target, request: PlanRequest, backend: Backend) -> Sizes:
    """Return the sizes, which the search for what fits calls often; SpecError: contradictions."""
    facts, family = target.facts, target.family
    dtype, reason = backend.dtype(target, request)
    limits = plan_limits(request, facts, family)
    pools = plan_pools(request, target, limits, dtype, copies=backend.pool_copies(target, request))
    memory = backend.memory(target, request, limits, dtype, pools)
    return Sizes(request, limits, dtype, reason, pools, memory)
