"""Builders on nodes whose clocks are days apart share a store without harm."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.base import manifest as manifests
from support.build_sites import Site
from support.cases import cases
from support.patched_builders import BUILD_SECONDS, CLOCK, run, start

pytestmark = pytest.mark.usefixtures("quick_builds")

MONTH = 30 * 24 * 3600
SECONDS = 60


@pytest.fixture
def calls_in_grpc() -> Iterator[None]:
    """A thread of this process that is calling into gRPC, as a toy gateway's does."""
    connected = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def call() -> None:
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.channel_ready()
            connected.set()
            await stop.wait()
        await server.stop(0)

    calling = threading.Thread(target=loop.run_until_complete, args=(call(),))
    calling.start()
    try:
        assert connected.wait(SECONDS)
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        calling.join(SECONDS)
        loop.close()


@pytest.mark.usefixtures("calls_in_grpc")
@cases("skew", {"ahead": MONTH, "behind": -MONTH})
def test_two_builders_of_one_engine(site: Site, skew: int) -> None:
    arguments = site.arguments
    builders = [start("", arguments), start(CLOCK.format(seconds=skew), arguments)]
    assert [builder.wait(BUILD_SECONDS) for builder in builders] == [0, 0]
    manifests.verify(site.paths.engine, manifests.read(site.paths.manifest))


def test_work_of_others_is_not_taken_for_old(site: Site) -> None:
    """A clock that is a month ahead does not make a minute-old working directory abandoned."""
    elsewhere = site.paths.work.with_name("f" * 64)
    elsewhere.mkdir(parents=True)
    (elsewhere / "journal.json").write_text("{}")
    assert run(CLOCK.format(seconds=MONTH), site.arguments) == 0
    assert elsewhere.is_dir()


def test_an_engine_from_the_future_is_served(site: Site) -> None:
    """The time in a manifest is reported, and decides nothing."""
    assert run(CLOCK.format(seconds=MONTH), site.arguments) == 0
    created = manifests.read(site.paths.manifest).created
    plan = BuildPlan.from_json(Path(site.arguments[2]).read_bytes())
    assert run("", site.arguments) == 0
    again = manifests.read(site.paths.manifest)
    assert (created, plan) == (again.created, again.plan)
