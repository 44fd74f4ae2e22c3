"""A control plane without a node serves the API, runs controllers, and goes without a trace."""

import pytest
from support.clusters import ClusterInfo, apply, eventually, kubectl, kubectl_json, namespace

pytestmark = pytest.mark.cluster


def test_the_api_server_is_the_pinned_release(control_plane: ClusterInfo) -> None:
    """The server tells the version that the module file pins."""
    version = kubectl_json(control_plane, "version")["serverVersion"]["gitVersion"]
    assert version == "v1.36.3"
