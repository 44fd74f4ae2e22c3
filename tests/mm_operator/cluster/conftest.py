"""A control plane with the resource definition, and a namespace for each test."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.clusters import namespace
from support.definition import install_definition
from support.model_namespace import Api


@pytest.fixture(scope="session")
def defined(control_plane: ClusterInfo) -> ClusterInfo:
    """The control plane, once models can be created."""
    install_definition(control_plane)
    return control_plane


@pytest.fixture
def api(defined: ClusterInfo) -> Iterator[Api]:
    """A namespace of its own under Pod Security `restricted`."""
    with namespace(defined, f"models-{uuid4().hex[:8]}") as name:
        yield Api(defined, name)
