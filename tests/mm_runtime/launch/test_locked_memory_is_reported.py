"""Ranks that may lock little memory are reported before NCCL fails without a cause."""

import resource

import pytest

from mm_runtime.launch.locked_memory import report_locked_memory
from support.cases import cases


@cases(
    "ranks limit reported",
    {
        "ranks": (2, 64 << 10, True),
        "unlimited": (2, resource.RLIM_INFINITY, False),
        "alone": (1, 64 << 10, False),
    },
)
def test_only_ranks_with_a_limit_are_reported(
    caplog: pytest.LogCaptureFixture, ranks: int, limit: int, *, reported: bool
) -> None:
    report_locked_memory(ranks, limit)
    assert ("may lock 64 KiB" in caplog.text and "LimitMEMLOCK" in caplog.text) == reported


def test_the_limit_is_the_processes_own(caplog: pytest.LogCaptureFixture) -> None:
    own, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    report_locked_memory(2)
    assert bool(caplog.messages) == (own != resource.RLIM_INFINITY)
