"""mpirun: starts each program of `-n 1 PROGRAM ... : -n 1 PROGRAM ...` and ends with the first.

As Open MPI 5.0.11 does: each rank leads a process group of its own; when one dies, the others get
SIGTERM and mpirun ends with the code of the first, 128 + the signal's number; ranks outlive an
mpirun that was killed. Standard library only.
"""

import os
import signal
import subprocess
import sys
from itertools import groupby
from types import FrameType

from arguments import refuse

OPTIONS = ("--allow-run-as-root", "--oversubscribe")
GRACE_SECONDS = 5.0
NOTICED = "prterun noticed that process rank {rank} on node {node} exited on signal {n}."


def main(program: str) -> None:
    words = sys.argv[1:]
    while words and words[0].startswith("--"):
        if words[0] not in OPTIONS:
            refuse(f"{program}: unrecognized option {words[0]}")
        words = words[1:]
    contexts = [list(part) for colon, part in groupby(words, ":".__eq__) if not colon]
    if not contexts or any(part[:2] != ["-n", "1"] or len(part) == 2 for part in contexts):
        refuse(f"{program}: expected -n 1 PROGRAM [: -n 1 PROGRAM ...]")
    signal.signal(signal.SIGTERM, _end)
    ranks = [
        subprocess.Popen(
            part[2:], process_group=0, env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank)}
        )
        for rank, part in enumerate(contexts)
    ]
    code = 1  # of an mpirun that got SIGTERM
    try:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        first = next(rank for rank, one in enumerate(ranks) if one.pid == pid)
        ranks[first].returncode = code
        if code < 0:
            print(NOTICED.format(rank=first, node=os.uname().nodename, n=-code), flush=True)
            code = 128 - code
    finally:
        _stop(ranks)
    sys.exit(code)


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)


def _stop(ranks: "list[subprocess.Popen[bytes]]") -> None:
    for one in ranks:
        one.terminate()  # nothing, where its end is known
    for one in ranks:
        try:
            one.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
