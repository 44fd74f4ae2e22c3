"""Thousands of connections at one moment cost the event loop no long turn."""

import asyncio
import socket
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from mm_edge.idle import IdleConnections
from support.gateways import serve, toy_gateway
from support.scripted_engine import ScriptedEngine

CROWD = 300


@dataclass(eq=False)
class Connection:
    """Counts looks at it."""

    busy: bool = False
    looks: int = 0

    @property
    def idle(self) -> bool:
        self.looks += 1
        return not self.busy


def test_those_without_a_request_make_room_first() -> None:
    """Then the ones whose last answer is longest ago; busy ones never."""
    first, second, third, busy = (Connection() for _ in range(4))
    connections: IdleConnections[Connection] = IdleConnections()
    for one in (first, second, third, busy):
        connections.begun(one, 1)
    connections.answered(second, 2)
    connections.answered(first, 2)
    busy.busy = True
    assert connections.take(0.5) is None  # none was idle by then
    taken = [connections.take(until) for until in (1, 1, 2, 2, 2)]
    assert taken == [third, None, second, first, None]


def test_one_that_was_busy_comes_back_with_its_answer() -> None:
    """It was passed over meanwhile; one that has gone leaves no place to another."""
    one = Connection(busy=True)
    connections: IdleConnections[Connection] = IdleConnections()
    connections.begun(one, 1)
    assert connections.take(2) is None
    one.busy = False
    connections.answered(one, 2)
    assert connections.take(2) is one
    for gone in (one, Connection()):
        connections.begun(gone, 3)
        connections.ended(gone)
    assert connections.take(4) is None


def test_room_is_made_without_a_look_at_all() -> None:
    """A busy one is looked at once, however many need room after it."""
    connections: IdleConnections[Connection] = IdleConnections()
    everyone = [Connection(busy=number % 2 == 0) for number in range(1000)]
    for one in everyone:
        connections.begun(one, 1)
    assert all(connections.take(2) for _ in range(500))
    assert max(one.looks for one in everyone) == 1


async def test_a_crowd_comes_in_groups(tmp_path: Path) -> None:
    """All get in although no one takes them at first, and no turn of the loop takes them all."""
    async with serve(toy_gateway(tmp_path, ScriptedEngine())) as running:
        crowd = [socket.create_connection(("127.0.0.1", running.port), 60) for _ in range(CROWD)]
        connections = running.server.server_state.connections
        counts = [0]
        async with asyncio.timeout(60):
            while counts[-1] < CROWD:
                await asyncio.sleep(0)
                counts.append(len(connections))
        for one in crowd:
            one.close()
    assert max(after - before for before, after in pairwise(counts)) <= 32
