"""A rule that became stricter refuses what is written again, not the status of what is stored."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_api.v1alpha1.definition import NAME
from mm_devcluster.cluster import ClusterInfo
from support.clusters import apply, kubectl, namespace
from support.eventually import eventually
from support.model_documents import at, document
from support.model_namespace import Api
from support.scripts import ROOT

pytestmark = pytest.mark.cluster

GROUP = "earlier.test"
KIND = "EarlierModel"
OBJECTIVE = {"metric": "TimeToFirstToken", "target": "45s"}


def _definition(*, strict: bool) -> dict[str, Any]:
    """Return our definition under other names, without the rules of objectives unless strict."""
    (path,) = Path(ROOT / "crds").glob("*multimodalmodel*.yaml")
    found: dict[str, Any] = next(
        one for one in yaml.safe_load_all(path.read_text()) if one["metadata"]["name"] == NAME
    )
    found = copy.deepcopy(found)
    found["metadata"]["name"] = f"earliermodels.{GROUP}"
    found["spec"]["group"] = GROUP
    found["spec"]["names"] = {"kind": KIND, "plural": "earliermodels", "singular": "earliermodel"}
    if not strict:
        spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        objectives = spec["properties"]["autoscaling"]["properties"]["objectives"]
        assert objectives["items"].pop("x-kubernetes-validations")
    return found


def _model(**objective: str) -> dict[str, Any]:
    model = document(at("autoscaling.objectives", [OBJECTIVE | objective]))
    return model | {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND}


@pytest.fixture
def earlier(control_plane: ClusterInfo) -> Iterator[Api]:
    """Return a namespace with a model that today's rules would refuse, under today's rules."""
    apply(control_plane, _definition(strict=False))
    with namespace(control_plane, "earlier-tests") as name:
        api = Api(control_plane, name)
        eventually(lambda: "created" in api.apply(_model()))
        apply(control_plane, _definition(strict=True))
        refused = document(at("autoscaling.objectives", [OBJECTIVE]), name="another")
        refused |= {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND}
        eventually(lambda: "must be from 5ms to 30s" in api.apply(refused, "--dry-run=server"))
        yield api
        api.kubectl("delete", "earliermodel", "--all")
    kubectl(control_plane, "delete", "crd", f"earliermodels.{GROUP}")


def test_its_status_and_replicas_are_written(earlier: Api) -> None:
    status = '{"status": {"observedGeneration": 1}}'
    patch = ("patch", "earliermodel", "llava", "--type=merge", "-p")

    assert "patched" in earlier.kubectl(*patch, status, "--subresource=status")
    assert "patched" in earlier.kubectl(*patch, '{"spec": {"replicas": 2}}', "--subresource=scale")
    assert "patched" in earlier.kubectl(*patch, '{"spec": {"autoscaling": {"maxReplicas": 3}}}')


@pytest.mark.slow
def test_a_wrong_target_is_not_replaced_by_another(earlier: Api) -> None:
    """What is written again must keep today's rules."""
    assert "must be from 5ms to 30s" in earlier.apply(_model(target="44s"))
    assert "configured" in earlier.apply(_model(target="1s"))
