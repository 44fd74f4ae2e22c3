"""A file that takes more than its limits ends its own decoder alone; its pixels get large pages."""

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import numpy as np
import pytest

from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.gateway.media.decoding.jobs import audio_job, image_job, video_job
from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import (
    DecoderEndedError,
    DecoderFailedError,
    DecoderLimits,
    DecoderProcess,
)
from mm_runtime.gateway.media.decoding.wire import Array, Job
from mm_runtime.gateway.media.frames import same
from mm_runtime.gateway.media.video import VideoLimits
from mm_runtime.images.media import BadImageError
from support import breaking_jobs
from support.audio_files import encode_audio, noise
from support.ended import end, is_gone, wait_until_gone
from support.eventually import eventually_async
from support.images import RED, data_url, encode, plain_image
from support.kept_decoders import KeptDecoders
from support.measuring_jobs import FILLED_BYTES, faults, variable
from support.unreduced import UNREDUCED
from support.videos import video

TESTS = Path(__file__).parents[2]
MEMORY = 512 << 20


@pytest.fixture(autouse=True)
def _jobs_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let decoders import the jobs of this test; begin without settings of glibc."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)


async def _decoders(wall_seconds: float, count: int = 1) -> AsyncIterator[Decoders]:
    decoders = Decoders(count, DecoderLimits(memory_bytes=MEMORY, wall_seconds=wall_seconds))
    yield decoders
    pids = decoders.pids
    decoders.close()
    for pid in pids:
        wait_until_gone(pid)


@pytest.fixture
def decoders() -> Iterator[Decoders]:
    """One decoder with time enough for everything, the last test's where that is left."""
    # Of other limits than toy gateways' decoders, which cannot import the jobs of this test.
    one = KeptDecoders(1, DecoderLimits(memory_bytes=MEMORY, wall_seconds=119))
    yield one
    one.close()


@pytest.fixture
async def hasty() -> AsyncIterator[Decoders]:
    async for one in _decoders(2):
        yield one


async def _decode(
    decoders: Decoders, job: Job, content: bytes = b"a file", seconds: int = 60
) -> Array:
    return (await decoders.through(lambda run: run(job, content, seconds))).array


@asynccontextmanager
async def _stuck(decoders: Decoders, folder: Path) -> AsyncIterator[asyncio.Task[Array]]:
    begun = folder / "begun"
    task = asyncio.create_task(_decode(decoders, breaking_jobs.sleep, bytes(begun)))
    try:
        await eventually_async(begun.exists)
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _process_of(decoders: Decoders) -> int:
    return int((await _decode(decoders, breaking_jobs.process)).view(np.uint32)[0])


async def test_an_image_is_decoded_in_another_process(decoders: Decoders) -> None:
    job = image_job(UNREDUCED.reduced, 1, 10_000)
    pixels = await _decode(decoders, job, encode(plain_image((30, 20))))
    assert pixels.shape == (20, 30, 3)
    assert tuple(pixels[5, 5]) == RED
    assert pixels.flags.writeable
    first = await _process_of(decoders)
    assert first != os.getpid()
    assert await _process_of(decoders) == first


async def test_videos_and_audio_clips_are_decoded_there_too(decoders: Decoders) -> None:
    """A file, a URL in text, and samples."""
    limits = VideoLimits(max_bytes=1_000_000, max_pixels=10_000, max_frames=4)
    content = video(5)
    frames = await _decode(decoders, video_job(same, limits, is_url=False), content)
    assert frames.shape == (4, 64, 64, 3)
    url = data_url(content, "video/mp4").encode()
    np.testing.assert_array_equal(
        frames, await _decode(decoders, video_job(same, limits, is_url=True), url)
    )
    audio = await _decode(decoders, audio_job(48_000), encode_audio(noise(2.0, seed=1)))
    assert (np.float32, 32_000) == (audio.dtype, len(audio))
    with pytest.raises(BadRecordingError, match="longer than 1 seconds"):
        await _decode(decoders, audio_job(16_000), encode_audio(noise(2.0, seed=1)))


@pytest.mark.parametrize("size", [0, 1, 65_536, 30_000_000], ids=str)
async def test_files_and_answers_of_any_size_arrive(decoders: Decoders, size: int) -> None:
    content = np.random.default_rng(size).bytes(size)
    assert (await _decode(decoders, breaking_jobs.echo, content)).tobytes() == content


async def test_a_refusal_is_the_decoders_own(decoders: Decoders) -> None:
    before = await _process_of(decoders)
    with pytest.raises(BadImageError, match="30 x 20 = 600 pixels, more than the limit of 599"):
        await _decode(decoders, image_job(UNREDUCED.reduced, 1, 599), encode(plain_image((30, 20))))
    assert await _process_of(decoders) == before


async def test_processor_time_ends(decoders: Decoders) -> None:
    """The kernel ends the process; the next file has a new one."""
    before = await _process_of(decoders)
    with pytest.raises(DecoderEndedError, match="more than 1 seconds of processor time"):
        await _decode(decoders, breaking_jobs.spin, seconds=1)
    assert is_gone(before)
    assert await _process_of(decoders) != before
    for _ in range(3):  # what earlier files took does not count against the next
        assert await _process_of(decoders)


async def test_waiting_ends(hasty: Decoders, tmp_path: Path) -> None:
    hasty.start()
    (before,) = hasty.pids
    with pytest.raises(DecoderEndedError, match="more than 2 seconds"):
        await _decode(hasty, breaking_jobs.sleep, bytes(tmp_path / "begun"))
    assert is_gone(before)


async def test_memory_ends(decoders: Decoders) -> None:
    """The kernel gives no more than the limit; the process stays."""
    before = await _process_of(decoders)
    with pytest.raises(DecoderEndedError, match="more memory than one file may have"):
        await _decode(decoders, breaking_jobs.fill)
    assert await _process_of(decoders) == before


@pytest.mark.parametrize("job", [breaking_jobs.crash, breaking_jobs.leave], ids=["crash", "exit"])
async def test_a_decoder_that_breaks_is_replaced(decoders: Decoders, job: Job) -> None:
    with pytest.raises(DecoderEndedError, match="its decoder broke over it"):
        await _decode(decoders, job)
    assert await _process_of(decoders)


async def test_what_a_library_prints_is_no_answer(decoders: Decoders) -> None:
    """Standard output of a decoder is its standard error."""
    assert (await _decode(decoders, breaking_jobs.chatter, b"abc")).tobytes() == b"abc"


async def test_a_false_answer_is_not_believed(decoders: Decoders) -> None:
    """An array larger than a decoder's memory is never made room for."""
    with pytest.raises(DecoderFailedError, match="1099511627776"):
        await _decode(decoders, breaking_jobs.lie)
    assert await _process_of(decoders)


async def test_our_own_errors_are_no_refusals(decoders: Decoders) -> None:
    """They are not reported to the client as the file's fault."""
    with pytest.raises(DecoderFailedError, match="KeyError: 6"):
        await _decode(decoders, breaking_jobs.fail)


async def test_others_are_decoded_meanwhile(tmp_path: Path) -> None:
    async for two in _decoders(120, count=2):
        async with _stuck(two, tmp_path) as stuck:
            for _ in range(5):
                assert (await _decode(two, breaking_jobs.echo, b"abc")).tobytes() == b"abc"
            assert not stuck.done()


async def test_started_decoders_are_used(tmp_path: Path) -> None:
    """No file waits for a process to start, and none is left at the end, busy or idle."""
    async for two in _decoders(120, count=2):
        two.start()
        before = two.pids
        assert len(before) == 2
        assert await _process_of(two) in before
        async with _stuck(two, tmp_path) as busy:
            two.close()
            with pytest.raises(DecoderEndedError):
                await busy
        for pid in before:
            wait_until_gone(pid)


async def test_a_caller_that_leaves_gives_its_place_back(
    decoders: Decoders, tmp_path: Path
) -> None:
    """Whether it waits for the decoder, for its start, or for its answer."""
    starting = asyncio.create_task(_process_of(decoders))
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait({starting})
    async with _stuck(decoders, tmp_path) as running:
        waiting = [asyncio.create_task(_process_of(decoders)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        running.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait(waiting)
    assert waiting[1].cancelled()
    assert waiting[0].result() == waiting[2].result()
    assert decoders.pids == {waiting[0].result()}


async def test_the_first_to_come_is_decoded_first(decoders: Decoders, tmp_path: Path) -> None:
    done: list[int] = []

    async def decode(number: int) -> None:
        await _decode(decoders, breaking_jobs.echo, b"x" * (5 - number) * 100_000)
        done.append(number)

    async with _stuck(decoders, tmp_path) as running:
        waiting = []
        for number in range(5):
            waiting.append(asyncio.create_task(decode(number)))
            await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(60):
            await asyncio.gather(*waiting)
    assert done == [0, 1, 2, 3, 4]


async def test_the_loop_runs_while_a_large_answer_comes(decoders: Decoders) -> None:
    """Thirty megabytes come a pipe at a time, and others have their turns between."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    await _decode(decoders, breaking_jobs.echo)
    before = turns
    assert len(await _decode(decoders, breaking_jobs.black, b"30000000")) == 30_000_000
    turning.cancel()
    # 28 pipes of a MiB when each is full, fewer when one is filled while it is read; blocked, one.
    assert turns - before > 10


async def test_the_loop_runs_where_the_pipe_is_never_empty(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder that writes as fast as is read: each piece is of another turn of the loop."""
    turns, read = 0, os.readv
    pieces: list[int] = []

    def waiting(pipe: int, into: list[memoryview]) -> int:
        while True:
            try:
                count = read(pipe, into)
            except BlockingIOError:
                time.sleep(0.001)
                continue
            pieces.append(turns)
            return count

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    await _decode(decoders, breaking_jobs.echo)
    monkeypatch.setattr(os, "readv", waiting)
    turning = asyncio.create_task(turn())
    assert len(await _decode(decoders, breaking_jobs.black, b"30000000")) == 30_000_000
    turning.cancel()
    assert len(pieces) > 20
    # Its header and the first piece behind it may come in one.
    assert len(set(pieces)) >= len(pieces) - 2


async def test_what_waits_for_a_decoder_ends_with_them() -> None:
    """For a place, for one that starts, or for one whose start has not begun."""
    async for two in _decoders(120, count=2):
        blocked = [asyncio.create_task(two.beside(lambda: time.sleep(0.5))) for _ in range(2)]
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(_process_of(two)) for _ in range(4)]
        await asyncio.sleep(0)
        two.close()
        async with asyncio.timeout(60):
            await asyncio.wait([*waiting, *blocked])
        assert {type(one.exception()) for one in waiting} == {DecoderEndedError}


def test_a_killed_gateway_leaves_no_decoder(tmp_path: Path) -> None:
    """Neither a busy nor an idle one, whatever ended it."""
    script = (
        "import asyncio, sys\n"
        "from mm_runtime.gateway.media.decoding.pool import Decoders\n"
        "from mm_runtime.gateway.media.decoding.process import DecoderLimits\n"
        "from support import breaking_jobs\n"
        "async def main():\n"
        "    two = Decoders(2, DecoderLimits(memory_bytes=1 << 29, wall_seconds=600))\n"
        "    two.start()\n"
        "    await two.through(lambda run: run(breaking_jobs.echo, b'', 600))\n"
        "    print(*two.pids, flush=True)\n"
        "    path = sys.argv[1].encode()\n"
        "    await two.through(lambda run: run(breaking_jobs.sleep, path, 600))\n"
        "asyncio.run(main())\n"
    )
    gateway = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "begun"], stdout=subprocess.PIPE
    )
    try:
        assert gateway.stdout is not None
        pids = [int(pid) for pid in gateway.stdout.readline().split()]
        gateway.kill()
    finally:
        end(gateway)
    gateway.stdout.close()
    assert len(pids) == 2
    for pid in pids:
        wait_until_gone(pid)


SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
LIMITS = DecoderLimits(memory_bytes=512 << 20, wall_seconds=120)
SMALL_PAGES = FILLED_BYTES // resource.getpagesize()


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
