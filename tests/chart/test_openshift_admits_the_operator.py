"""The chart's pod passes OpenShift's restricted-v2 with the value userIds: Namespace."""

from typing import Any

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.chart import of_kind
from support.clusters import namespace
from support.restricted_v2 import admitted, restricted_v2

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"userIds": "Namespace"}, "created (server dry run)", id="left"),
        pytest.param(
            {},
            "restricted-v2: user outside of the namespace's range",
            id="fixed",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_operators_pod(
    control_plane: ClusterInfo, values: dict[str, Any], expected: str
) -> None:
    """Left to the namespace it is admitted; the default names a user, and is refused."""
    (deployment,) = of_kind("Deployment", values)
    pod = deployment["spec"]["template"]["spec"]
    with namespace(control_plane, "openshift") as name, restricted_v2(control_plane, name) as api:
        said = admitted(api, pod)
    assert expected in said, said
