"""Scrape annotations are a part of the revision: a change of how metrics are found is a new one."""

from dataclasses import replace
from typing import Any

import pytest

from mm_operator.model import Ref
from support.imagined_cluster import ImaginedCluster
from support.models import SETTINGS, tiny_facts

DISAGGREGATED = {"vision": {"placement": "Disaggregated", "replicas": 2}}
PORTS = {"llava": "8080", "llava-encoders": "8002"}
KINDS = [pytest.param(name, id=name) for name in PORTS]


def _served(*, announced: bool) -> ImaginedCluster:
    cluster = ImaginedCluster()
    cluster.apply("llava", DISAGGREGATED)
    _switch(cluster, announced=announced)
    cluster.inspected(tiny_facts())
    cluster.built()
    for name in PORTS:
        cluster.pods_ready(name)
    return cluster


def _switch(cluster: ImaginedCluster, *, announced: bool) -> None:
    settings = replace(SETTINGS, scrape_annotations=announced)
    cluster.models["llava"] = replace(cluster.models["llava"], settings=settings)
    cluster.settle()


def _scraped(cluster: ImaginedCluster, name: str) -> dict[str, str]:
    template: dict[str, Any] = cluster.objects[Ref("Deployment", name)]["spec"]["template"]
    return {
        key.removeprefix("prometheus.io/"): value
        for key, value in template["metadata"]["annotations"].items()
        if key.startswith("prometheus.io/")
    }


@pytest.mark.parametrize("name", KINDS)
def test_pods_are_announced(name: str) -> None:
    """Each kind of pod names the port of its one page, and no annotation where a monitor is."""
    page = {"scrape": "true", "port": PORTS[name], "path": "/metrics"}
    assert page == _scraped(_served(announced=True), name)
    assert _scraped(_served(announced=False), name) == {}


@pytest.mark.parametrize("announced", [True, False], ids=["off", "on"])
def test_a_switch_is_one_revision(*, announced: bool) -> None:
    """As any change of the operator's settings is, which rolls out by turns."""
    cluster = _served(announced=announced)
    before = dict(cluster.objects)
    _switch(cluster, announced=not announced)
    assert [_scraped(cluster, name) != {} for name in PORTS] == [not announced] * 2
    cluster.settle()
    _switch(cluster, announced=announced)
    assert [before[Ref("Deployment", name)]["spec"]["template"] for name in PORTS] == [
        cluster.objects[Ref("Deployment", name)]["spec"]["template"] for name in PORTS
    ]
