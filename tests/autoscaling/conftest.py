"""A namespace of a real API server, scripted gateways, and what scrapes them every second."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.clusters import namespace
from support.definition import install_definition
from support.model_namespace import Api
from support.scripted_gateways import ScriptedGateways, scripted_gateways


@pytest.fixture
def api(control_plane: ClusterInfo) -> Iterator[Api]:
    """A namespace of its own under Pod Security `restricted`."""
    install_definition(control_plane)
    with namespace(control_plane, f"autoscaling-{uuid4().hex[:8]}") as name:
        yield Api(control_plane, name)


@pytest.fixture
def gateways() -> Iterator[ScriptedGateways]:
    """The metrics of gateways, written by the test."""
    with scripted_gateways() as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a Prometheus keeps its data."""
    place = tmp_path / "prometheus"
    place.mkdir()
    return place
