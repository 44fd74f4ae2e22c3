"""The condition of LoRA adapters that come and go in running pods."""

from mm_api.conditions import ConditionType, Reason
from mm_operator.model import Plan, Step
from mm_operator.status.conditions import Condition, truth


def adapters_loaded(plan: Plan) -> Condition | None:
    """Return the condition AdaptersLoaded; None where the model has no room for adapters."""
    found = plan.adapters
    if found is None:
        return None
    done = found.step is Step.DONE and found.reason == Reason.ADAPTERS_LOADED
    return Condition(ConditionType.ADAPTERS_LOADED, truth(done), found.reason, found.message)
