"""Whatever fails beside the autoscaler, replicas stay or rise for a reason, and fall for one."""

from pathlib import Path

import pytest

from support.eventually import eventually_async
from support.model_namespace import Api
from support.ports import free_ports
from support.prometheus import Prometheus, running_prometheus
from support.scaling_site import NAME, Site, followed, scraping
from support.scripted_gateways import ScriptedGateways, scripted_gateways

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TEN_MINUTES = 40
"""Ticks of 15 s."""
PATIENCE = 240
"""Ticks within which an idle model has fallen to one replica: an hour."""
IDLE = {"requests_running": 0.02, "requests_accepted_total": 3}
BUSY = {"requests_running": 1, "requests_waiting": 2, "requests_accepted_total": 3}
THREE = ("pod-0", "pod-1", "pod-2")


async def seen(prometheus: Prometheus, pods: int = 1) -> None:
    query = "rate(mm_requests_accepted_total[60s])"
    await eventually_async(
        lambda: len(prometheus.query(query)) >= pods, seconds=60, pause_seconds=0.2
    )


async def falls(site: Site) -> int:
    for number in range(PATIENCE):
        if await site.replicas() == 1:
            return number
        await site.tick()
    raise AssertionError(await site.tick())


async def test_ten_minutes_of_silence_lower_nothing(
    api: Api, gateways: ScriptedGateways, folder: Path
) -> None:
    port = free_ports(1)[0]
    async with followed(api, gateways, f"http://127.0.0.1:{port}") as site:
        await site.settle(3)
        site.report(*THREE, **IDLE)
        with running_prometheus(folder, scraping(a=gateways), port=port) as prometheus:
            await seen(prometheus, 3)
            assert (await site.tick())["condition"] == (True, "FollowingLoad")

        silent = await site.tick(TEN_MINUTES)

        assert site.ticks == [3] * (TEN_MINUTES + 1)
        assert silent["condition"] == (False, "MetricsMissing")
        assert "cannot be reached" in silent["message"]
        with running_prometheus(folder, scraping(a=gateways), port=port) as prometheus:
            await seen(prometheus, 3)
            await falls(site)


async def test_a_new_leader_steps_down_no_sooner_than_the_old_one(
    site: Site, prometheus: Prometheus
) -> None:
    """It knows nothing of the past, so it watches first; what it finds half done is no jump."""
    await site.settle(3)
    site.report(*THREE, **IDLE)
    await seen(prometheus, 3)
    while await site.replicas() == 3:
        await site.tick()
    watched = len(site.ticks)
    assert watched > 2

    site.another_leads()
    await site.settle(3)
    await site.tick(watched - 1)
    site.another_leads()
    held = await site.tick()
    assert (held["desired"], await site.replicas()) == (3, 3)
    assert held["vetoes"][0].startswith("ShortMemory")

    site.another_leads()
    while await site.replicas() == 3:
        await site.tick(killed=True)  # moved, and died before it could say so
    site.another_leads()
    after = await site.tick()
    assert (after["desired"], await site.replicas()) == (2, 2)
    assert not any("SetBy" in one["reason"] for one in after["history"][:1])


@pytest.mark.parametrize("ahead", [3600.0, -3600.0], ids=["ahead", "behind"])
async def test_a_wrong_clock_moves_nothing(
    site: Site, prometheus: Prometheus, ahead: float
) -> None:
    """An hour between operator and Prometheus: the load is followed, and so is the next leader."""
    site.clock.ahead = ahead
    await site.settle(1)
    site.report("pod-0", **BUSY)
    await seen(prometheus)
    reported = await site.tick()
    raised = await site.replicas()
    assert raised > 1
    assert reported["condition"][0]

    site.clock.ahead = 0.0
    site.another_leads()
    names = [f"pod-{number}" for number in range(raised)]
    site.start(*names)
    site.report(*names, **BUSY)
    await seen(prometheus, raised)
    held = await site.tick()
    assert (held["desired"], held["condition"][0]) == (raised, True)
    assert await site.replicas() == raised


async def test_replicas_without_a_node_are_not_multiplied(
    site: Site, prometheus: Prometheus
) -> None:
    await site.settle(1)
    site.report("pod-0", **BUSY)
    await seen(prometheus)
    site.api.kubectl("scale", "mmm", NAME, "--replicas=2")
    site.start("pod-1", ready=False)
    await eventually_async(
        lambda: "Unschedulable" in site.api.kubectl("get", "pod", "pod-1", "-o", "yaml")
    )
    site.clock.ahead += 60

    limited = await site.tick(4)

    assert limited["condition"] == (True, "CapacityLimited")
    assert "NoCapacity" in {one.partition(":")[0] for one in limited["vetoes"]}
    assert set(site.ticks) == {2}
    site.api.kubectl("delete", "pod", "pod-1", "--force", "--grace-period=0")
    site.start("pod-2")
    site.report("pod-0", "pod-2", **BUSY)
    await seen(prometheus, 2)
    followed_again = await site.tick()
    assert followed_again["condition"] == (True, "FollowingLoad")
    assert await site.replicas() > 2


async def test_series_of_another_cluster_count_for_nothing(
    api: Api, gateways: ScriptedGateways, folder: Path
) -> None:
    port = free_ports(1)[0]
    with (
        scripted_gateways() as others,
        running_prometheus(folder, scraping(a=gateways, b=others), port=port) as prometheus,
    ):
        async with followed(api, gateways, prometheus.address, cluster="a") as site:
            await site.settle(1)
            site.report("pod-0", "stranger", **IDLE)
            others.serve(api.namespace, "pod-0", requests_running=50, requests_accepted_total=9)
            others.serve(api.namespace, "pod-9", requests_running=50, requests_accepted_total=9)
            await seen(prometheus, 4)

            reported = await site.tick(4)

            assert reported["inputs"]["inFlightRequests"] == pytest.approx(IDLE["requests_running"])
            assert (reported["desired"], set(site.ticks)) == (1, {1})


async def test_hands_are_reported_and_followed_from(site: Site, prometheus: Prometheus) -> None:
    """Someone else's number is noted as such, and falls in steps as any other does."""
    await site.settle(1)
    site.report("pod-0", **IDLE)
    await seen(prometheus)
    await site.tick()
    await site.settle(3)
    site.report(*THREE, **IDLE)

    reported = await site.tick()

    newest = reported["history"][0]
    assert newest["reason"].startswith("SetBy")
    assert (newest["fromReplicas"], newest["toReplicas"]) == (1, 3)
    assert await site.replicas() == 3
    await seen(prometheus, 3)
    assert await falls(site) > 2
    assert max(-min(0, b - a) for a, b in zip(site.ticks, site.ticks[1:], strict=False)) == 1
