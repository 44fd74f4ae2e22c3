"""The gateway's container is limited to the memory that the gateway holds itself to."""

from mm_api.documents.serving_plan import GatewayPlan
from mm_api.gateway_memory import DECODERS, body_bytes, decoder_bytes, gateway_bytes
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.children.containers import build_gateway
from support.cases import cases
from support.models import spec_of

_MIB = 1 << 20


def _plan(**changes: int) -> GatewayPlan:
    plan = GatewayPlan(
        max_concurrency=8,
        max_queue_size=64,
        max_image_bytes=20 * _MIB,
        max_image_pixels=50_000_000,
        max_images_per_request=1,
        fetch_timeout_seconds=10,
        request_timeout_seconds=300,
    )
    return plan.model_copy(update=changes)


def _resources(spec: MultimodalModelSpec) -> object:
    container = build_gateway(spec, image="i", manifest="m", memory_bytes=1000 * _MIB + 1)
    return container["resources"]


@cases(
    "requested expected",
    {
        "the-plans": (
            {},
            {"limits": {"memory": "1001Mi"}, "requests": {"cpu": "100m", "memory": "352Mi"}},
        ),
        "the-specs": (
            {"limits": {"memory": "4Gi", "cpu": 2}},
            {"limits": {"memory": "4Gi", "cpu": "2"}, "requests": {}},
        ),
        "no-less-than-the-specs-request": (
            {"requests": {"memory": "2Gi"}},
            {"limits": {"memory": "2048Mi"}, "requests": {"cpu": "100m", "memory": "2Gi"}},
        ),
    },
)
def test_the_limit(requested: dict[str, object], expected: dict[str, object]) -> None:
    """The plan's, unless the spec states one; Kubernetes refuses a request above its limit."""
    assert {key: value for key, value in expected.items() if value} == _resources(
        spec_of({"gateway": {"resources": requested}})
    )


def test_the_limit_is_the_sum_of_what_the_gateway_bounds() -> None:
    plan = _plan()
    parts = body_bytes(plan) + DECODERS * decoder_bytes(plan)
    assert 512 * _MIB <= gateway_bytes(plan, encodes=False) - parts < 600 * _MIB


@cases(
    "changes least",
    {
        "pixels": ({"max_image_pixels": 100_000_000}, 2 * 50_000_000 * 20),
        "bytes": ({"max_image_bytes": 40 * _MIB}, 2 * 20 * _MIB * 4),
        "images": ({"max_images_per_request": 40}, 500 * _MIB),
    },
)
def test_larger_images_raise_it(changes: dict[str, int], least: int) -> None:
    assert (
        gateway_bytes(_plan(**changes), encodes=False) - gateway_bytes(_plan(), encodes=False)
        >= least
    )
