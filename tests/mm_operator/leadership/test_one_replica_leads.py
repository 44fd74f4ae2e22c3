"""Two operators on a real API server: one leads, and the other one takes over."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.absent_kubelet import get
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import OperatorProcess, running_operator

pytestmark = pytest.mark.cluster


@contextmanager
def two_operators(api: Api, folder: Path) -> Iterator[tuple[OperatorProcess, OperatorProcess]]:
    """Run two; the one that leads comes first."""
    with (
        running_operator(api.cluster, folder, api.namespace) as one,
        running_operator(api.cluster, folder, api.namespace) as two,
    ):
        found = eventually(lambda: [each for each in (one, two) if each.leads()])
        assert len(found) == 1
        yield (one, two) if found[0] is one else (two, one)


@pytest.mark.slow
def test_a_killed_leader_is_replaced(api: Api, tmp_path: Path) -> None:
    with two_operators(api, tmp_path) as (first, second):
        eventually(lambda: second.get("/readyz") == "ok")
        first.kill()

        eventually(second.leads)

        api.apply(document(name="llava"))
        eventually(lambda: get(api, "mmm", "llava").get("status"))


def test_a_stopped_leader_gives_its_lease_back(api: Api, tmp_path: Path) -> None:
    with two_operators(api, tmp_path) as (first, second):
        assert first.stop() == 0

        assert "the Lease was given back" in first.log.read_text()
        eventually(second.leads)


def test_only_the_leader_writes(api: Api, tmp_path: Path) -> None:
    with two_operators(api, tmp_path) as (first, second):
        for name in ("a", "b", "c"):
            api.apply(document(name=name))

        eventually(lambda: first.writes() >= 6)
        assert second.writes() == 0
