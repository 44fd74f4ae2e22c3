"""A CUDA pool that holds one prompt table: every table that is read has the bits that left.

The sums of bits are taken at both ends, in the processes of encoder and language model, behind the
real Triton and the gateway (`bench/gpu/pool.py`). Run with `pytest -m gpu tests/gpu`.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.triton]

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 280


def test_every_table_that_is_read_has_left(tmp_path: Path) -> None:
    """32 clients at a time; what finds the pool full is refused, and everything else is right."""
    out = tmp_path / "pool.json"
    command = [sys.executable, str(ROOT / "bench" / "gpu" / "pool.py"), "--out", str(out)]
    done = subprocess.run(
        [*command, "--pools", "1", "--together", "32", "--requests", "3"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]

    run = json.loads(out.read_text())["pools"]["1"]

    assert run["server_alive"]
    assert (run["tables_with_other_bits"], run["arrived_on_host"]) == (0, 0)
    assert run["refused_pool_full"] > 0, "the pool was never full: nothing was shown"
    assert run["tables_read"] + run["refused_pool_full"] >= run["requests"]
