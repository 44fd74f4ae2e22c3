"""The event loop that a gateway's process runs on: libuv's."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

Result = TypeVar("Result")


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that does not run yet."""
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on a loop of its own, as `asyncio.run` does; return its result."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
