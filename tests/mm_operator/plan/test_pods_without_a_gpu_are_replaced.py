"""A pod whose GPU is lost is deleted, so that its Deployment makes another one with another GPU."""

from mm_operator.model import GpuFault, PodState
from mm_operator.plan.decision import is_stuck
from support.cases import cases
from support.imagined_cluster import ImaginedCluster
from support.models import tiny_facts

LOST = GpuFault(usable=False, message="the driver has lost it")


def pod(**fields: object) -> PodState:
    values = {
        "serving_hash": "h",
        "phase": "Running",
        "ready": False,
        "name": "a",
        "restarts": 1,
        "gpu": LOST,
    }
    return PodState(**(values | fields))  # type: ignore[arg-type]


@cases(
    "fields expected",
    {
        "failed twice": ({}, True),
        "failed once": ({"restarts": 0}, False),
        "full": ({"gpu": GpuFault(usable=True, message="full")}, False),
        "runs": ({"gpu": None}, False),
        "answers": ({"ready": True}, False),
        "goes already": ({"terminating": True}, False),
    },
)
def test_which_pods_are_replaced(fields: dict[str, object], expected: bool) -> None:  # noqa: FBT001
    assert is_stuck(pod(**fields)) is expected


def test_the_pod_is_deleted_and_the_model_says_why() -> None:
    """At first the condition alone; the pod goes when its second start failed, too."""
    cluster = ImaginedCluster()
    cluster.apply("one")
    cluster.inspected(tiny_facts())
    cluster.built()
    cluster.trouble("one", pod(restarts=0))
    assert cluster.conditions("one")["Degraded"] == "True GpuUnusable"
    assert cluster.message("one", "Ready") == LOST.message

    cluster.pods["one"] = ()
    cluster.trouble("one", pod())
    assert cluster.pods["one"] == ()
