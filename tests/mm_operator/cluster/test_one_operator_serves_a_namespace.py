"""Two operators that are set to serve one namespace: one serves it, the other refuses it."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mm_operator.cluster.namespaces import LEASE_NAME
from support.absent_kubelet import built, get, inspected
from support.clusters import namespace
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import OperatorProcess, running_operator

pytestmark = pytest.mark.cluster

MANY = 6
"""With thirteen streams each, more connections than the operator's client once had for all: 32."""

IMAGES = {
    name: (f"--runtime-image=localhost/multimodal/runtime:{name}",) for name in ("first", "second")
}
"""Different images: each operator alone would want another pod template."""


def holder(api: Api) -> str:
    found = api.read("lease", LEASE_NAME)
    return str(found["spec"]["holderIdentity"]) if found else ""


def degraded(api: Api) -> tuple[str, str, str]:
    conditions = get(api, "mmm", "llava")["status"]["conditions"]
    (found,) = (one for one in conditions if one["type"] == "Degraded")
    return found["status"], found["reason"], found["message"]


def deployment(api: Api) -> tuple[str, int]:
    metadata = get(api, "deployment", "llava")["metadata"]
    return metadata["uid"], metadata["generation"]


def served(api: Api) -> None:
    # No kubelet: pods that never run would be a reason of their own to be degraded.
    api.apply(document({"replicas": 0}, name="llava"))
    inspected(api, "llava")
    built(api)
    eventually(lambda: deployment(api))


def refusals(operator: OperatorProcess) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in operator.log.read_text().splitlines()]
    return [line for line in lines if "is served by the operator" in line["message"]]


def test_namespaces_that_did_not_exist_are_named(api: Api, tmp_path: Path) -> None:
    missing = ("--missing-namespace=one", "--missing-namespace=two")
    with running_operator(
        api.cluster, tmp_path, api.namespace, arguments=(*IMAGES["first"], *missing)
    ) as operator:
        eventually(operator.leads, showing=operator.log.read_text)
        lines = [json.loads(line) for line in operator.log.read_text().splitlines()]
        said = [one for one in lines if "did not exist when" in one["message"]]
        assert [(one["level"], one["message"].split()[1]) for one in said] == [
            ("warning", "one"),
            ("warning", "two"),
        ]
        assert "\nmm_operator_namespaces_missing 2.0" in operator.metrics()


def test_the_second_operator_refuses_it(api: Api, tmp_path: Path) -> None:
    with running_operator(
        api.cluster, tmp_path, api.namespace, lease="first", arguments=IMAGES["first"]
    ):
        served(api)
        before = deployment(api)
        with running_operator(
            api.cluster, tmp_path, api.namespace, lease="second", arguments=IMAGES["second"]
        ) as second:
            eventually(lambda: refusals(second), showing=second.log.read_text)
            refused = refusals(second)
            assert [line["level"] for line in refused] == ["warning"]
            assert f"{api.namespace}/first" in refused[0]["message"]
            assert "\nmm_operator_namespaces_refused 1.0" in second.metrics()
            # A spec that both see: only the first may answer it.
            api.kubectl("patch", "mmm", "llava", "--type=merge", "-p", '{"spec":{"replicas":1}}')
            eventually(lambda: get(api, "deployment", "llava")["spec"]["replicas"] == 1)
            assert deployment(api) == (before[0], before[1] + 1)
            assert second.writes() == 0
            image = get(api, "deployment", "llava")["spec"]["template"]["spec"]["containers"]
            assert {one["image"] for one in image} == {"localhost/multimodal/runtime:first"}


@pytest.mark.slow
def test_an_uninstalled_operator_leaves_the_namespace_free(api: Api, tmp_path: Path) -> None:
    """Without its leader Lease it is gone: the next operator takes the namespace at once."""
    with running_operator(api.cluster, tmp_path, api.namespace, lease="first") as first:
        api.apply(document(name="llava"))
        eventually(lambda: holder(api) == f"{api.namespace}/first")
        assert first.stop() == 0
    api.kubectl("delete", "lease", "first")

    with running_operator(api.cluster, tmp_path, api.namespace, lease="second"):
        eventually(lambda: holder(api) == f"{api.namespace}/second")


def test_the_lease_goes_with_the_role_of_the_release(api: Api, tmp_path: Path) -> None:
    """The Role that a Helm release removes owns it: the garbage collector deletes it."""
    api.kubectl("create", "role", "rights", "--verb=get", "--resource=pods")
    uid = get(api, "role", "rights")["metadata"]["uid"]
    with running_operator(
        api.cluster, tmp_path, api.namespace, lease="first", arguments=("--role-name=rights",)
    ) as first:
        api.apply(document(name="llava"))
        eventually(lambda: holder(api) == f"{api.namespace}/first")
        owners = get(api, "lease", LEASE_NAME)["metadata"]["ownerReferences"]
        assert [owner["uid"] for owner in owners] == [uid]
        assert first.stop() == 0
    api.kubectl("delete", "role", "rights")

    eventually(lambda: holder(api) == "")


@pytest.mark.slow
def test_one_operator_serves_many_namespaces(api: Api, tmp_path: Path) -> None:
    """Each has streams of its own, and requests still find a connection beside all of them."""
    with ExitStack() as stack:
        names = [
            stack.enter_context(namespace(api.cluster, f"{api.namespace}-{number}"))
            for number in range(MANY - 1)
        ]
        served_by = [api, *(Api(api.cluster, name) for name in names)]
        operator = stack.enter_context(
            running_operator(api.cluster, tmp_path, api.namespace, *names)
        )
        for one in served_by:
            one.apply(document({"replicas": 0}, name="llava"))
        for one in served_by:
            inspected(one, "llava")
            built(one)
            eventually(lambda one=one: deployment(one), showing=operator.log.read_text)


def test_replicas_of_one_installation_share_it(api: Api, tmp_path: Path) -> None:
    """The holder is the installation and not the pod: a new leader writes nothing."""
    with running_operator(api.cluster, tmp_path, api.namespace) as leader:
        api.apply(document(name="llava"))
        eventually(lambda: holder(api))
        version = get(api, "lease", LEASE_NAME)["metadata"]["resourceVersion"]
        with running_operator(api.cluster, tmp_path, api.namespace) as standby:
            assert leader.stop() == 0
            eventually(standby.leads)
            eventually(lambda: 'verb="patch"' in standby.metrics() or standby.leads())

            assert get(api, "lease", LEASE_NAME)["metadata"]["resourceVersion"] == version
            assert refusals(standby) == []
