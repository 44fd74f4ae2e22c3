"""A namespace for Leases on the control plane."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.clusters import namespace
from support.definition import install_definition
from support.model_namespace import Api


@pytest.fixture
def api(control_plane: ClusterInfo) -> Iterator[Api]:
    """A namespace of its own on a control plane that knows models."""
    install_definition(control_plane)
    with namespace(control_plane, f"leases-{uuid4().hex[:8]}") as name:
        yield Api(control_plane, name)
