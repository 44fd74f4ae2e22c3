"""Two operators on a real API server: one leads, and the other one takes over."""

from pathlib import Path

import pytest

from support.absent_kubelet import get
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import OperatorProcess, running_operator

pytestmark = pytest.mark.cluster


def leader_of(*operators: OperatorProcess) -> OperatorProcess:
    found = eventually(lambda: [one for one in operators if one.leads()])
    assert len(found) == 1
    return found[0]


@pytest.mark.slow
def test_a_killed_leader_is_replaced(api: Api, tmp_path: Path) -> None:
    with (
        running_operator(api.cluster, tmp_path, api.namespace) as one,
        running_operator(api.cluster, tmp_path, api.namespace) as two,
    ):
        first = leader_of(one, two)
        second = two if first is one else one
        eventually(lambda: second.get("/readyz") == "ok")
        first.kill()

        eventually(second.leads)

        api.apply(document(name="llava"))
        eventually(lambda: get(api, "mmm", "llava").get("status"))


def test_a_stopped_leader_gives_its_lease_back(api: Api, tmp_path: Path) -> None:
    with (
        running_operator(api.cluster, tmp_path, api.namespace) as one,
        running_operator(api.cluster, tmp_path, api.namespace) as two,
    ):
        first = leader_of(one, two)
        second = two if first is one else one

        assert first.stop() == 0

        assert "the Lease was given back" in first.log.read_text()
        eventually(second.leads)


def test_only_the_leader_writes(api: Api, tmp_path: Path) -> None:
    with (
        running_operator(api.cluster, tmp_path, api.namespace) as one,
        running_operator(api.cluster, tmp_path, api.namespace) as two,
    ):
        first = leader_of(one, two)
        second = two if first is one else one
        for name in ("a", "b", "c"):
            api.apply(document(name=name))

        eventually(lambda: first.writes() >= 6)
        assert second.writes() == 0
