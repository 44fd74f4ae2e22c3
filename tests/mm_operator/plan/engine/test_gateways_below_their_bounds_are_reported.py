"""A plan says when a gateway's memory limit is below the bounds that the gateway keeps."""

from typing import Any

import pytest

from mm_api.documents.model_plan import ModelPlan
from mm_api.gateway_memory import gateway_bytes
from support.model_configs import planned, planned_on_pytorch, reference_plan
from support.models import tiny_facts

CODE = "GatewayMemoryBelowBounds"


def _reference(gateway: dict[str, Any]) -> ModelPlan:
    return reference_plan(tiny_facts(), {"gateway": gateway})


def _tensorrt(gateway: dict[str, Any]) -> ModelPlan:
    return planned("llava", gateway=gateway)


def _reported(plan: ModelPlan) -> list[str]:
    return [one.message for one in plan.warnings if one.code == CODE]


def _pytorch(gateway: dict[str, Any]) -> ModelPlan:
    return planned_on_pytorch("qwen2-vl", "1.2.1", gateway=gateway)


@pytest.mark.parametrize("planner", [_reference, _tensorrt, _pytorch])
def test_the_limit_is_compared_with_the_plans_own_number(planner: Any) -> None:
    """At the bounds nothing is said; one byte below them a warning names what is needed."""
    serving = planner({}).serving_plan
    assert serving is not None
    bounds = gateway_bytes(serving.gateway, encodes=serving.trtllm_serve is not None)

    def limited(count: int) -> dict[str, Any]:
        return {"resources": {"limits": {"memory": count}}}

    assert _reported(planner({})) == []
    assert _reported(planner(limited(bounds))) == []
    (message,) = _reported(planner(limited(bounds - 1)))
    assert f"bodies and decoders to {-(-bounds // 2**20)}Mi together" in message


def test_smaller_images_fit_into_less() -> None:
    resources = {"limits": {"memory": "2600Mi"}}
    assert _reported(_reference({"resources": resources}))
    assert not _reported(_reference({"resources": resources, "maxImagePixels": 25_000_000}))


def test_a_server_below_its_request_is_reported() -> None:
    """Backends on a GPU have no verdict of host memory: a warning names what is planned."""
    runtime = {"resources": {"limits": {"memory": "1Gi"}}}
    (message,) = [
        one.message
        for one in planned("llava", runtime=runtime).warnings
        if one.code == "ServerMemoryBelowPlan"
    ]
    assert "runtime.resources.limits.memory is 1Gi, but weights, caches" in message
