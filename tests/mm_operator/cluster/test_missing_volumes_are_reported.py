"""A pod that waits for a volume on its node: the model's condition says which and what to do."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient, Configuration

from mm_api import labels
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.client import Client
from mm_operator.cluster.pod_diagnostics import PodDiagnostics, volume_trouble
from mm_operator.cluster.pods import pod_end, waits_on_its_node
from mm_operator.cluster.resources import POD
from mm_operator.model import VolumeFault, VolumeTrouble
from support.absent_kubelet import built, inspected, serving, wait_for_pod
from support.bound_pods import bind, empty_node
from support.cases import cases
from support.eventually import eventually
from support.http_servers import Exchange, serve_local
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

MULTI = (
    'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node and '
    "can't be attached to another"
)
LONG_AGO = "2026-01-02T03:04:05Z"


def event(reason: str, message: str) -> dict[str, Any]:
    return {"reason": reason, "message": message}


def status(phase: str = "Pending", *, scheduled: str = "True", **state: Any) -> dict[str, Any]:
    placed = {"type": "PodScheduled", "status": scheduled, "lastTransitionTime": LONG_AGO}
    found: dict[str, Any] = {"phase": phase, "conditions": [placed]}
    if state:
        found["containerStatuses"] = [{"name": "inspect", "state": state}]
    return {"metadata": {"name": "pod"}, "status": found}


CREATING = {"waiting": {"reason": "ContainerCreating"}}


@cases(
    "events expected",
    {
        "nothing": ([], None),
        "something-else": ([event("BackOff", "back-off")], None),
        "the-cause-before-what-follows": (
            [event("FailedMount", "timed out"), event("FailedAttachVolume", MULTI)],
            VolumeTrouble(VolumeFault.ATTACHED_ELSEWHERE),
        ),
        "not-attached": (
            [event("FailedAttachVolume", "AttachVolume.Attach failed for volume x.")],
            VolumeTrouble(VolumeFault.NOT_ATTACHED, "AttachVolume.Attach failed for volume x"),
        ),
        "without-the-pods-name": (
            [event("FailedMount", "no volumes of m-abc:\n timed out")],
            VolumeTrouble(VolumeFault.NOT_MOUNTED, "no volumes of the pod: timed out"),
        ),
        "bounded": (
            [event("FailedMount", "x" * 1000)],
            VolumeTrouble(VolumeFault.NOT_MOUNTED, "x" * 300),
        ),
    },
)
def test_events_become_one_trouble(
    events: list[dict[str, Any]], expected: VolumeTrouble | None
) -> None:
    assert volume_trouble(events, "m-abc") == expected


@cases(
    "pod waits",
    {
        "no-container-yet": (status(), True),
        "creating": (status(**CREATING), True),
        "no-node": (status(scheduled="False"), False),
        "image": (status(waiting={"reason": "ErrImagePull"}), False),
        "runs": (status("Running", running={"startedAt": LONG_AGO}), False),
        "ran-before": (status(terminated={"exitCode": 1, "startedAt": LONG_AGO}), False),
    },
)
def test_only_pods_that_never_began_wait(pod: dict[str, Any], *, waits: bool) -> None:
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert waits_on_its_node(pod) == (since if waits else None)


async def test_the_newest_event_is_the_present_cause() -> None:
    """Events last an hour: a Secret that is there by now hides none that is still missing."""
    said = [("30", 'secret "b" not found'), ("20", 'secret "a" not found')]

    async def answer(exchange: Exchange) -> None:
        items = [
            {"metadata": {"resourceVersion": version}, "reason": "FailedMount", "message": message}
            for version, message in said
        ]
        body = json.dumps({"metadata": {}, "items": items}).encode()
        await exchange.answer(200, body, **{"content-type": "application/json"})

    waits = status(**CREATING)
    waits["metadata"] |= {"namespace": "demo", "uid": "pod", "resourceVersion": "1"}
    cache, now = Cache(), datetime(2026, 1, 2, 4, tzinfo=UTC)
    cache.put(POD.kind, waits)
    found = cache.find(POD.kind, "demo", "pod")
    async with serve_local(answer) as local:
        client = Client(
            ApiClient(Configuration(host=f"http://127.0.0.1:{local.port}")), timeout_seconds=60
        )
        diagnostics = PodDiagnostics(client, cache)
        for look in ("b", "c"):
            await diagnostics.gather([], [found], now)
            expected = VolumeTrouble(VolumeFault.NOT_MOUNTED, f'secret "{look}" not found')
            assert diagnostics.volume("pod") == expected
            said.insert(0, ("40", 'secret "c" not found'))
            now += timedelta(hours=1)
        await client.close()


@cases(
    "state began",
    {
        "creating": (CREATING, False),
        "unknown": ({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}, False),
        "ran": ({"terminated": {"exitCode": 137, "startedAt": LONG_AGO}}, True),
    },
)
def test_a_deadline_without_a_beginning_is_known(state: dict[str, Any], *, began: bool) -> None:
    """The kubelet counts a pod's deadline from before its volumes are there."""
    end = pod_end(status("Failed", **state))
    assert end.began == began


def report_event(api: Api, pod: dict[str, Any], reason: str, message: str) -> None:
    meta = pod["metadata"]
    involved = {"apiVersion": "v1", "kind": "Pod"} | {
        name: meta[name] for name in ("name", "namespace", "uid")
    }
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "volume-"},
        "involvedObject": involved,
        "type": "Warning",
        "reason": reason,
        "message": message,
    }
    api.kubectl("create", "-f", "-", stdin=json.dumps(body))


def reported(api: Api, kind: str, words: str) -> None:
    def said() -> bool:
        one, degraded = api.condition("m", kind), api.condition("m", "Degraded")
        reasons = {one.get("reason"), degraded.get("reason")}
        return reasons == {"VolumeUnavailable"} and words in one["message"]

    eventually(said, showing=lambda: (api.condition("m", kind), api.condition("m", "Degraded")))
    assert api.condition("m", "Degraded")["status"] == "True"


@pytest.mark.slow
@pytest.mark.cluster
def test_a_missing_volume_becomes_the_condition(api: Api, tmp_path: Path) -> None:
    inspecting = f"{labels.MODEL}=m,{labels.APP_COMPONENT}={labels.Component.INSPECT}"
    servers = f"{labels.MODEL}=m,{labels.APP_COMPONENT}={labels.Component.SERVER}"
    with empty_node(api.cluster) as node, running_operator(api.cluster, tmp_path, api.namespace):
        api.apply(document(name="m"))
        pod = wait_for_pod(api, inspecting)
        bind(api, pod, node)
        report_event(api, pod, "FailedAttachVolume", MULTI)
        reported(api, "Planned", "another node has it (Multi-Attach)")

        inspected(api, "m")
        built(api)
        pod = wait_for_pod(api, servers)
        bind(api, pod, node)
        report_event(
            api, pod, "FailedMount", f'{pod["metadata"]["name"]}: secret "tokens" not found'
        )
        reported(api, "RollingOut", 'the pod: secret "tokens" not found')

        serving(api, "m")
        api.reaches("m", "Degraded", "AsExpected")
