"""What cannot be read, of a Prometheus or of a status, ends no tick."""

from typing import Any

import pytest
from aiohttp import web

from mm_operator.scaling.prometheus import Endpoint, Prometheus, trust
from mm_operator.scaling.reader import read_all
from support.answering_api import answered_by
from support.cases import cases
from support.one_tick import decisions, model, samples, vector


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prometheus.__init__, "__defaults__", (3600.0,))


async def idle(_: web.Request) -> web.Response:
    values = {"accepted_steady": 0, "accepted_fast": 0, "sampled_at": 500, "now": 510}
    return samples({"well-server-0": values})


async def lists_for_labels(_: web.Request) -> web.Response:
    return vector({"metric": ["well-server-0"], "value": [0, "1"]})


async def empty(_: web.Request) -> web.Response:
    return vector()


@cases(
    "raises words",
    {
        "labels-that-are-no-labels": (False, "labels are not texts"),
        "whatever-reading-raises": (True, "see the operator's log"),
    },
)
async def test_garbage_holds_the_replicas(
    monkeypatch: pytest.MonkeyPatch, words: str, *, raises: bool
) -> None:
    plain = Prometheus.query

    async def query(self: Prometheus, promql: str, pods: int = 0) -> Any:
        answer = await plain(self, promql, pods)
        if raises and answer["data"]["result"][0]["metric"] == ["well-server-0"]:
            raise ZeroDivisionError("a defect")
        return answer

    monkeypatch.setattr(Prometheus, "query", query)
    async with answered_by(lists_for_labels) as bad:
        found = await decisions(bad, model("well"))

    assert found["well"].metrics_available is False
    assert words in found["well"].message


async def test_a_status_that_cannot_be_read_stops_no_decision() -> None:
    """The plan of a status is not read, and a history that is none counts as empty."""
    async with answered_by(idle) as good:
        status = {"plan": {"limits": {"maxBatchSize": "many"}}, "scaling": {"history": "many"}}
        found = await decisions(good, model("odd", status), model("well"))

    assert set(found) == {"odd", "well"}
    assert found["well"].metrics_available is True


async def test_the_one_of_a_pair_that_knows_nothing_is_queried_last() -> None:
    """After a restart a Prometheus answers, and is empty: at the next tick the other is queried."""
    async with answered_by(empty) as new, answered_by(idle) as old:
        client = Prometheus(Endpoint((new, old)), trust(Endpoint(())))
        where = ("demo", "well-server-0")
        try:
            first, second = [await read_all(client, [where], []) for _ in range(2)]
        finally:
            await client.close()

    assert (where in first, where in second) == (False, True)
