"""How evenly replicas are loaded where work is weighed by tokens, and where requests are counted.

A simulation of the router's own placement (`simulated_replicas`): short and long requests,
the same for both ways, at three loads and with five seeds each.

    .venv/bin/python bench/router/evenness.py

writes bench/router/results/evenness.json. Goal: the spread of the replicas' work at load 0.8 is at
most 0.9 of that by requests.
"""

import json
import statistics
from pathlib import Path

from simulated_replicas import Evenness, by_requests, by_tokens, simulate

from mm_router import placement

RESULT = Path(__file__).parent / "results" / "evenness.json"
LOADS, SEEDS, REQUESTS = (0.5, 0.8, 0.95), range(5), 4000


def mean(runs: list[Evenness], name: str) -> float:
    """Return the mean of one figure."""
    return round(statistics.fmean(getattr(run, name) for run in runs), 3)


def main() -> None:
    """Simulate, and write the result."""
    found = {}
    for load in LOADS:
        ways = {
            name: [simulate(weigh, seed=seed, requests=REQUESTS, load=load) for seed in SEEDS]
            for name, weigh in (("tokens", by_tokens), ("requests", by_requests))
        }
        shown = {
            way: {name: mean(runs, name) for name in Evenness.__dataclass_fields__}
            for way, runs in ways.items()
        }
        ratio = shown["tokens"]["spread_seconds"] / shown["requests"]["spread_seconds"]
        found[f"load_{load}"] = {**shown, "spread_of_requests": round(ratio, 3)}
    result = {
        "command": "bench/router/evenness.py",
        "requests": REQUESTS,
        "seeds": len(SEEDS),
        "free_tokens": placement.FREE,
        **found,
    }
    text = json.dumps(result, indent=1)
    RESULT.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
