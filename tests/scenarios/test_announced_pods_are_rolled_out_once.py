"""Scrape annotations come with a new revision; a change of how metrics are found rolls nothing."""

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
def test_a_switch_rolls_nothing_out(*, announced: bool) -> None:
    """Deployments and records stay as they are, whatever the flag was before; an upgrade is one."""
    cluster = _served(announced=announced)
    before = dict(cluster.objects)
    _switch(cluster, announced=not announced)
    assert before == cluster.objects


@pytest.mark.parametrize("name", KINDS)
def test_the_next_revision_follows_the_switch(name: str) -> None:
    """A rollout for another reason brings the annotations, and takes them away again."""
    cluster = _served(announced=False)
    _switch(cluster, announced=True)
    cluster.apply("llava", {**DISAGGREGATED, "runtime": {"image": "example.org/runtime:2"}})
    assert _scraped(cluster, name)["port"] == PORTS[name]
    _switch(cluster, announced=False)
    cluster.apply("llava", {**DISAGGREGATED, "runtime": {"image": "example.org/runtime:3"}})
    assert _scraped(cluster, name) == {}


@pytest.mark.parametrize("name", KINDS)
def test_a_lost_record_changes_no_pod(name: str) -> None:
    """The Deployment knows what its pods have when the revision's record is deleted or damaged."""
    cluster = _served(announced=False)
    _switch(cluster, announced=True)
    before = cluster.objects[Ref("Deployment", name)]
    template = before["spec"]["template"]["spec"]
    cluster.remove(Ref("ConfigMap", template["volumes"][1]["configMap"]["name"]))
    assert before == cluster.objects[Ref("Deployment", name)]
