"""Pixels get new pages with each file: large ones, of which it takes few."""

import asyncio
import resource
from contextlib import closing
from pathlib import Path

import pytest

from mm_runtime.gateway.media.decoding.process import DecoderLimits, DecoderProcess
from mm_runtime.gateway.media.decoding.wire import Array, Job
from support.measuring_jobs import FILLED_BYTES, faults, variable

TESTS = Path(__file__).parents[2]
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
LIMITS = DecoderLimits(memory_bytes=512 << 20, wall_seconds=120)
SMALL_PAGES = FILLED_BYTES // resource.getpagesize()


@pytest.fixture(autouse=True)
def _jobs_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let decoders import the jobs of this test; begin without settings of glibc."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)


def _faults() -> int:
    with closing(_Ended()) as decoder:
        return int(decoder.made(faults, b"x").view("uint64")[0])


class _Ended:
    """A decoder, ended with its block."""

    def __init__(self) -> None:
        self.process = DecoderProcess(LIMITS)

    def made(self, job: Job, content: bytes) -> Array:
        return asyncio.run(self.process.run(job, content, 60)).array

    def close(self) -> None:
        self.process.end()


def _with_large_pages() -> bool:
    return SETTING.exists() and "[madvise]" in SETTING.read_text()


@pytest.mark.skipif(not _with_large_pages(), reason="the kernel gives large pages to all or none")
def test_few_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of what pages of 4 KiB would take; what a pod's own settings say comes first."""
    assert _faults() < SMALL_PAGES / 10
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
    assert _faults() >= SMALL_PAGES


def test_settings_of_the_pod_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
    with closing(_Ended()) as decoder:
        given = decoder.made(variable, b"GLIBC_TUNABLES").tobytes()
    assert given == b"glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1"
