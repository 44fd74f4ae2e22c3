"""Runs every policy on every trace and fault, five seeds each, and writes `results/runs.jsonl`.

`simulate_all.py [--processes N] [--seeds N] [--keep]`: a quarter of an hour on two quiet cores.
With `--keep` the runs that the result has already stay as they are: a stopped bench resumes, and a
change of one policy (its rows removed) does not run the others again.
"""

import argparse
import json
import multiprocessing
import time
from dataclasses import dataclass
from pathlib import Path

import runs

from mm_lab.simulation.profile import H100_CLASS

RESULT = Path(__file__).parent / "results" / "runs.jsonl"


@dataclass(frozen=True)
class Job:
    """One run, by names, so that it travels to another process."""

    kind: str
    where: str
    candidate: int
    seed: int


def jobs(seeds: int) -> list[Job]:
    """Return every run, seed by seed: stopped early, the seeds before are complete."""
    usual = [
        index
        for index, one in enumerate(runs.SWEPT)
        if runs.USUAL.get(one.policy) == one.target and one.policy in runs.FAULT_POLICIES
    ]
    found = []
    for seed in range(runs.FIRST_SEED, runs.FIRST_SEED + seeds):
        for trace in runs.FRONTIER:
            found += [
                Job("frontier", trace, index, seed)
                for index, one in enumerate(runs.SWEPT)
                if trace in one.traces
            ]
        for fault in runs.FAULTS:
            found += [Job("fault", fault.name, index, seed) for index in usual]
    return found


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
        "above": candidate.above,
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


def _key(job: Job) -> tuple[object, ...]:
    one = runs.SWEPT[job.candidate]
    return (job.kind, job.where, one.policy, one.target, job.seed)


def _there() -> set[tuple[object, ...]]:
    """Return the runs that the result has."""
    rows = [json.loads(line) for line in RESULT.read_text(encoding="utf-8").splitlines()]
    return {
        tuple(row[name] for name in ("kind", "where", "policy", "target", "seed")) for row in rows
    }


def main() -> None:
    """Run all and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    started = time.monotonic()
    RESULT.parent.mkdir(exist_ok=True)
    work = jobs(options.seeds)
    if options.keep:
        there = _there()
        work = [job for job in work if _key(job) not in there]
    mode = "a" if options.keep else "w"
    with (
        multiprocessing.Pool(options.processes) as pool,
        RESULT.open(mode, encoding="utf-8") as out,
    ):
        for number, row in enumerate(pool.imap(run, work, chunksize=7), start=1):
            print(json.dumps(row), file=out, flush=True)
            if number % 50 == 0:
                print(f"{number} of {len(work)}, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{RESULT}: {len(work)} runs, {H100_CLASS.name}")


if __name__ == "__main__":
    main()
