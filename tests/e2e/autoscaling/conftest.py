"""A model on a real API server, scripted gateways, and the Prometheus that scrapes them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.model_namespace import Api
from support.ports import free_ports
from support.prometheus import Prometheus, running_prometheus
from support.scaling_site import Site, followed, scraping
from support.scripted_gateways import ScriptedGateways, scripted_gateways


@pytest.fixture
def gateways() -> Iterator[ScriptedGateways]:
    with scripted_gateways() as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "prometheus"
    place.mkdir()
    return place


@pytest.fixture
def prometheus(gateways: ScriptedGateways, folder: Path) -> Iterator[Prometheus]:
    with running_prometheus(folder, scraping(a=gateways), port=free_ports(1)[0]) as server:
        yield server


@pytest.fixture
async def site(api: Api, gateways: ScriptedGateways, prometheus: Prometheus) -> AsyncIterator[Site]:
    async with followed(api, gateways, prometheus.address) as one:
        yield one
