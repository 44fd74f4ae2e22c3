"""Backend VLLM: the server is a stock image with the plan's command; the gateway is ours."""

from typing import Any

from mm_api.contract import FEATURES_MOUNT, STORE_MOUNT, VLLM_IMAGE
from support.model_configs import facts_of
from support.models import SETTINGS
from support.staged import children, inspected

CHANGES = {
    "engine": {"backend": "VLLM"},
    "runtime": {"gpu": {"product": "NVIDIA-H100-80GB-HBM3"}},
}


def pod(**runtime: Any) -> dict[str, Any]:
    changes = {**CHANGES, "runtime": {**CHANGES["runtime"], **runtime}}
    made = children(inspected(changes, built=True, facts=facts_of("qwen2-5-vl")))
    found: dict[str, Any] = made["Deployment/server"]["spec"]["template"]["spec"]
    return found


def server(**runtime: Any) -> dict[str, Any]:
    (found,) = (one for one in pod(**runtime)["initContainers"] if one["name"] == "server")
    return dict(found)


def test_the_command_is_the_plans() -> None:
    made = server()
    plan = inspected(CHANGES, built=True, facts=facts_of("qwen2-5-vl"))[1].serving_plan
    assert plan is not None
    assert plan.vllm_serve is not None

    assert [*made["command"], *made["args"]] == plan.vllm_serve.argv
    assert made["args"][:2] == ["serve", "checkpoint"]
    assert made["workingDir"].endswith(plan.fingerprint)
    assert {one["mountPath"] for one in made["volumeMounts"]} == {
        STORE_MOUNT,
        "/dev/shm",
        "/tmp",
    }


def test_each_container_has_its_image() -> None:
    (gateway,) = pod(image="example.org/vllm:v0.26.0")["containers"]

    assert server()["image"] == VLLM_IMAGE
    assert server(image="example.org/vllm:v0.26.0")["image"] == "example.org/vllm:v0.26.0"
    assert gateway["image"] == SETTINGS.runtime_image


def test_the_server_is_checked_from_inside() -> None:
    """It listens on loopback, where the kubelet does not come: no port, and no check by HTTP."""
    made = server()

    assert "ports" not in made
    assert "readinessProbe" not in made
    for kind in ("startupProbe", "livenessProbe"):
        assert "127.0.0.1:8000/health" in made[kind]["exec"]["command"][-1]
    start = made["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 1800


def test_it_may_write_where_the_pod_lets_it() -> None:
    """Root is read-only and the user has no entry in the image: homes and caches are in /tmp."""
    made = server()
    variables = {one["name"]: one["value"] for one in made["env"]}

    assert made["securityContext"]["readOnlyRootFilesystem"]
    assert made["securityContext"]["runAsNonRoot"]
    for name in ("HOME", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"):
        assert variables[name].startswith("/tmp")
    assert variables["HF_HUB_OFFLINE"] == "1"


def test_the_gateway_shows_its_metrics() -> None:
    """There is no supervisor's page: the gateway adds the server's own."""
    (gateway,) = pod()["containers"]
    place = gateway["args"].index("--server-metrics")

    assert gateway["args"][place + 1] == "127.0.0.1:8000"


def test_shared_memory_is_planned() -> None:
    """One rank needs little; of two, each has a queue, and NCCL its buffers."""
    (one,) = (item for item in pod()["volumes"] if item["name"] == "shm")

    assert one["emptyDir"] == {"medium": "Memory", "sizeLimit": str(256 << 20)}


def test_features_lie_in_the_pods_own_memory() -> None:
    """Gateway and server alone have it; the encoders' pods run the operator's image on a GPU."""
    vision = {"placement": "Disaggregated", "engine": "Torch"}
    changes = {**CHANGES, "vision": vision}
    model, plan = inspected(changes, built=True, facts=facts_of("llava"))
    made = children((model, plan))
    assert plan.serving_plan is not None
    served, encoder = (
        made[f"Deployment/{one}"]["spec"]["template"]["spec"] for one in ("server", "encoder")
    )
    (volume,) = (one for one in served["volumes"] if one["name"] == "features")
    having = {
        one["name"]
        for one in [*served["containers"], *served["initContainers"]]
        if {"name": "features", "mountPath": FEATURES_MOUNT} in one["volumeMounts"]
    }

    assert having == {"gateway", "server"}
    room = plan.serving_plan.features_bytes + (16 << 20)
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": str(room)}
    assert [one["image"] for one in encoder["containers"]] == [SETTINGS.runtime_image]
    assert encoder["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
