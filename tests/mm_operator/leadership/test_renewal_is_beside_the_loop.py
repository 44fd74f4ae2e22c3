"""A blocked event loop and a real API server: the Lease is renewed all the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mm_operator.cluster.client import Client, connect
from mm_operator.cluster.leases import REQUEST_SECONDS, LeaseObject
from mm_operator.leadership.elector import Elector
from mm_operator.leadership.lease import Timing
from support.absent_kubelet import get
from support.eventually import eventually, eventually_async
from support.model_namespace import Api

pytestmark = pytest.mark.cluster

TIMING = Timing(duration=10.0, renew_deadline=8.0, retry=0.1)
BLOCKED_SECONDS = 12
"""Longer than the Lease lasts: a rival takes one that was not renewed."""


@pytest.mark.slow
async def test_a_blocked_loop_does_not_cost_the_lease(api: Api) -> None:
    """The leader stays the holder, a candidate beside it never leads, and no work begins again."""

    @asynccontextmanager
    async def open_lease() -> AsyncIterator[LeaseObject]:
        library = await connect(str(api.cluster.kubeconfig), None)
        client = Client(library, timeout_seconds=REQUEST_SECONDS)
        try:
            yield LeaseObject(client, api.namespace, "blocked")
        finally:
            await client.close()

    begun: list[str] = []
    moment = [0.0]

    def elector(identity: str) -> Elector:
        async def lead() -> None:
            begun.append(identity)
            await asyncio.Event().wait()

        return Elector(open_lease, identity, lead, timing=TIMING, clock=lambda: moment[0])

    def version() -> str:
        return str(get(api, "lease", "blocked")["metadata"]["resourceVersion"])

    one, two = elector("one"), elector("two")
    tasks = [asyncio.create_task(one.run())]
    await eventually_async(lambda: begun == ["one"])
    tasks.append(asyncio.create_task(two.run()))
    await asyncio.sleep(0)

    for _ in range(BLOCKED_SECONDS):  # nothing is awaited here
        before = version()
        moment[0] += 1
        eventually(lambda before=before: version() != before)

    assert (one.leads(), two.leads()) == (True, False)
    lease: dict[str, Any] = get(api, "lease", "blocked")
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("one", 0)
    await asyncio.sleep(0.1)
    assert begun == ["one"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert get(api, "lease", "blocked")["spec"]["holderIdentity"] == ""
