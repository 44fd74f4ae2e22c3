"""A namespace with the resource definition on a real API server."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.clusters import namespace
from support.definition import install_definition
from support.model_namespace import Api


@pytest.fixture(scope="module")
def api(control_plane: ClusterInfo) -> Iterator[Api]:
    """Return a namespace in which MultimodalModels may be created; it goes with what it holds."""
    install_definition(control_plane)
    with namespace(control_plane, f"api-tests-{uuid4().hex[:8]}") as name:
        yield Api(control_plane, name)
