"""What containers and Jobs need on images, meshes and quotas that are not ours."""

from typing import Any

import pytest

from support.staged import children, fresh, inspected

BUCKET = {"build": {"store": {"s3": {"bucket": "engines"}}}}


def templates(changes: dict[str, Any]) -> dict[str, Any]:
    """Return kind/component -> pod template of everything that a model ever runs."""
    stages = (fresh(changes), inspected(changes), inspected(changes, built=True))
    found = {name: one for stage in stages for name, one in children(stage).items()}
    return {
        name: one["spec"]["template"]
        for name, one in found.items()
        if "template" in one.get("spec", {})
    }


DISAGGREGATED = templates({"vision": {"placement": "Disaggregated"}})
CONTAINERS = [
    pytest.param(container, id=f"{name}-{container['name']}")
    for name, template in (DISAGGREGATED | templates(BUCKET)).items()
    for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"])
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_names_its_user_and_its_caches(container: dict[str, Any]) -> None:
    """Torch needs a name where /etc/passwd has none, and a cache that can be written."""
    named = {one["name"]: one.get("value") for one in container["env"]}
    expected = {
        "HOME": "/tmp",
        "USER": "multimodal",
        "LOGNAME": "multimodal",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor",
        "TRITON_CACHE_DIR": "/tmp/triton",
    }
    assert expected.items() <= named.items()


@pytest.mark.parametrize("job", ["Job/inspect", "Job/build"])
def test_no_mesh_joins_a_job(job: str) -> None:
    """A proxy that does not end keeps a Job from ending; pods that serve are left to the mesh."""
    metadata = DISAGGREGATED[job]["metadata"]
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    assert metadata["labels"]["kuma.io/sidecar-injection"] == "disabled"
    assert metadata["annotations"]["linkerd.io/inject"] == "disabled"
    serving = DISAGGREGATED["Deployment/server"]["metadata"]
    assert "sidecar.istio.io/inject" not in {**serving["labels"], **serving["annotations"]}


def test_every_container_has_a_limit_of_cpu_where_the_spec_sets_them() -> None:
    """A quota on limits.cpu refuses a pod with one container that has none."""
    limits = {"resources": {"limits": {"cpu": "50m"}}}
    changes = {"build": {**BUCKET["build"], **limits}, "runtime": limits, "gateway": limits}
    for name, template in templates(changes).items():
        pod = template["spec"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            resources = container["resources"]
            assert resources["limits"]["cpu"] == "50m", f"{name} {container['name']}"
            assert resources.get("requests", {}).get("cpu", "50m") == "50m"


def test_jobs_have_their_own_account() -> None:
    """Where a cloud lets an account read a bucket, inspection and build need it; pods another."""
    accounts = {"build": {"serviceAccountName": "reader"}, "runtime": {"serviceAccountName": "s"}}
    found = {
        name: template["spec"].get("serviceAccountName")
        for name, template in templates(accounts).items()
    }
    assert found == {"Job/inspect": "reader", "Job/build": "reader", "Deployment/server": "s"}


def test_pods_of_a_kind_are_spread() -> None:
    """Servers and encoders each among themselves, and those of a former revision do not count."""
    spread = [{"topologyKey": "zone", "maxSkew": 2}]
    changes = {
        "runtime": {"topologySpreadConstraints": spread},
        "vision": {"placement": "Disaggregated"},
    }
    for component in ("server", "encoder"):
        (made,) = templates(changes)[f"Deployment/{component}"]["spec"]["topologySpreadConstraints"]
        selected = made.pop("labelSelector")["matchLabels"]
        assert selected["app.kubernetes.io/component"] == component
        assert made == {
            "topologyKey": "zone",
            "maxSkew": 2,
            "whenUnsatisfiable": "ScheduleAnyway",
            "matchLabelKeys": ["pod-template-hash"],
        }
