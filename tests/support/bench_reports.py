"""What `mm-lab bench` reports of a run."""

import argparse
import asyncio

import pytest

from mm_lab.commands import bench
from mm_lab.loadtest.report import BenchReport

RUN_SECONDS = 240


async def report_of(
    capsys: pytest.CaptureFixture[str], address: str, *options: str
) -> tuple[int, BenchReport]:
    parser = argparse.ArgumentParser()
    bench.configure(parser)
    usual = [address, "-o", "json", "--quiet", "--duration", "1h"]
    async with asyncio.timeout(RUN_SECONDS):
        code = await bench.run(parser.parse_args([*usual, *options]))
    return code, BenchReport.from_json(capsys.readouterr().out)
