"""Runs every policy on every trace and fault, five seeds each, and writes `results/runs.json`.

`simulate_all.py [--processes N] [--seeds N]`: about 20 minutes on two cores.
"""

import argparse
import json
import multiprocessing
import platform
import time
from dataclasses import dataclass
from pathlib import Path

import runs
from traces import TRACES

RESULT = Path(__file__).parent / "results" / "runs.json"


@dataclass(frozen=True)
class Job:
    """One run, by names, so that it travels to another process."""

    kind: str
    where: str
    candidate: int
    seed: int


def jobs(seeds: int) -> list[Job]:
    """Return every run; those of one trace and seed lie together: the trace is made once."""
    swept = [
        Job("frontier", trace, index, seed)
        for trace in TRACES
        for seed in range(1, seeds + 1)
        for index in range(len(runs.SWEPT))
    ]
    usual = [
        index
        for index, one in enumerate(runs.SWEPT)
        if runs.USUAL.get(one.policy) == one.target and one.policy in runs.FAULT_POLICIES
    ]
    faults = [
        Job("fault", fault.name, index, seed)
        for seed in range(1, seeds + 1)
        for fault in runs.FAULTS
        for index in usual
    ]
    return swept + faults


def run(job: Job) -> dict[str, object]:
    """Return one run's numbers."""
    candidate = runs.SWEPT[job.candidate]
    if job.kind == "frontier":
        score = runs.run_swept(job.where, candidate, job.seed)
    else:
        fault = next(one for one in runs.FAULTS if one.name == job.where)
        score = runs.run_fault(fault, candidate, job.seed)
    return {
        "kind": job.kind,
        "where": job.where,
        "policy": candidate.policy,
        "target": candidate.target,
        "seed": job.seed,
        "requests": score.requests,
        "attainment": round(score.attainment, 6),
        "replica_hours": round(score.replica_hours, 4),
        "first_token_p99_seconds": round(score.first_token_p99_seconds, 3),
        "refused": score.refused,
        "lost": score.lost,
        "changes": len(score.changes),
        "reversals": score.reversals,
        "bad_minutes": score.bad_minutes,
        "lowest_ready": score.lowest_ready,
        "highest_ready": score.highest_ready,
    }


def main() -> None:
    """Run all and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    started = time.monotonic()
    work = jobs(options.seeds)
    with multiprocessing.Pool(options.processes) as pool:
        found = []
        for number, row in enumerate(pool.imap(run, work, chunksize=len(runs.SWEPT)), start=1):
            found.append(row)
            if number % 50 == 0:
                print(f"{number} of {len(work)}, {time.monotonic() - started:.0f} s", flush=True)
    RESULT.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in found)
    head = json.dumps(
        {
            "profile": runs.H100_CLASS.name,
            "python": platform.python_version(),
            "seeds": options.seeds,
        }
    )
    RESULT.write_text(f'{{"made":{head},"runs":[\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{RESULT}: {len(found)} runs")


if __name__ == "__main__":
    main()
