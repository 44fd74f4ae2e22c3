"""A model that serves on a real API server, and a real Prometheus that scrapes its gateways."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ports import free_ports
from support.prometheus import Prometheus, running_prometheus
from support.scripted_gateways import ScriptedGateways, scripted_gateways


@pytest.fixture
def gateways() -> Iterator[ScriptedGateways]:
    with scripted_gateways() as served:
        yield served


@pytest.fixture
def prometheus(gateways: ScriptedGateways, tmp_path: Path) -> Iterator[Prometheus]:
    folder = tmp_path / "prometheus"
    folder.mkdir()
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {
                "job_name": "gateways",
                # The labels are those that a scrape of pods gives.
                "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{gateways.port}"]}],
            }
        ],
    }
    with running_prometheus(folder, config, port=free_ports(1)[0]) as server:
        yield server
