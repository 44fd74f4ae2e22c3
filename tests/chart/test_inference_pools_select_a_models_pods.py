"""`inferencePools` of the chart: a pool has the pods that the Service of its model has."""

from typing import Any

import pytest
import yaml

from mm_api.contract import GATEWAY_PORT
from mm_devcluster.cluster import ClusterInfo
from mm_operator.children.deployment import selector
from support.chart import EXHAUSTIVE, of_kind, refusal
from support.clusters import kubectl, namespace
from support.endpoint_picker import defined_pools
from support.eventually import eventually
from support.golden import Golden

PICKER = {"name": "picker", "port": 9002}


def pool(**changes: Any) -> dict[str, Any]:
    return {"namespace": "team", "model": "llava", "endpointPicker": PICKER} | changes


def test_without_the_value_there_is_none() -> None:
    assert of_kind("InferencePool", {}) == []


def test_a_pool_has_the_pods_of_the_models_service() -> None:
    """Each of their gateways is an endpoint; encoders and other models are none."""
    (one,) = of_kind("InferencePool", {"inferencePools": [pool()]})
    (other,) = of_kind("InferencePool", EXHAUSTIVE)

    assert (one["metadata"]["namespace"], one["metadata"]["name"]) == ("team", "llava")
    assert one["spec"] == {
        "selector": {"matchLabels": selector("llava")},
        "targetPorts": [{"number": GATEWAY_PORT}],
        "endpointPickerRef": {
            "group": "",
            "kind": "Service",
            "name": "picker",
            "port": {"number": 9002},
            "failureMode": "FailClose",
        },
    }
    assert other["spec"]["endpointPickerRef"]["failureMode"] == "FailOpen"


WRONG: dict[str, dict[str, Any]] = {
    "no-picker": {"inferencePools": [{"model": "x"}]},
    "no-port": {"inferencePools": [pool(endpointPicker={"name": "x"})]},
    "another-kind": {"inferencePools": [pool(endpointPicker=PICKER | {"kind": "Pod"})]},
    "twice": {"inferencePools": [pool(), pool()]},
    "namespace": {"watchNamespaces": ["a"], "inferencePools": [pool()]},
}


def test_wrong_values_are_refused(golden: Golden) -> None:
    found = {name: refusal(values) for name, values in WRONG.items()}
    golden.check_yaml("wrong-pools.yaml", found)


@pytest.mark.slow
@pytest.mark.cluster
def test_the_extensions_own_definition_takes_the_pool(control_plane: ClusterInfo) -> None:
    """Strict validation accepts it; before the definition is there the kind is what is refused."""
    items = of_kind("InferencePool", {"inferencePools": [pool(namespace="pools")]})
    text = yaml.safe_dump_all(items)
    with namespace(control_plane, "pools"):
        with pytest.raises(Exception, match='no matches for kind "InferencePool"'):
            kubectl(control_plane, "apply", "--validate=strict", "-f", "-", stdin=text)
        with defined_pools(control_plane):
            # Discovery learns of a new kind a moment after it is established.
            eventually(lambda: taken(control_plane, text), seconds=60)


def taken(cluster: ClusterInfo, text: str) -> bool:
    kubectl(cluster, "apply", "--validate=strict", "-f", "-", stdin=text)
    return True
