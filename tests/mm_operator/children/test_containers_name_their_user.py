"""What containers and Jobs need on images, meshes and quotas that are not ours."""

from typing import Any

import pytest

from support.staged import children, fresh, inspected

BUCKET = {"build": {"store": {"s3": {"bucket": "engines"}}}}


def templates(changes: dict[str, Any]) -> dict[str, Any]:
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
