"""How many plans a second of CPU: each family, and the search for what would fit.

Run: `.venv/bin/python bench/plan/plans_per_second.py` (10 seconds). The search tries tens of plans,
so 200 a second is what it needs to answer at once.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.extend(str(Path(__file__).resolve().parents[2] / one) for one in ("tests", "tools"))
from support.model_configs import FOLDERS, planned  # tests/ is no package of the distribution

SECONDS = 0.5
WANTED = 200.0


def rate(work: Callable[[], object]) -> float:
    """Return how often `work` runs in a second of CPU."""
    work()
    count, started = 0, time.process_time()
    while time.process_time() - started < SECONDS:
        work()
        count += 1
    return count / (time.process_time() - started)


def main() -> int:
    """Print the rates; exit 1 when a family is below what the search needs."""
    rates = {family: rate(partial(planned, family)) for family in FOLDERS}
    for family, found in rates.items():
        print(f"{family:<18}{found:>8.0f} plans/s")
    for family in ("llava", "mllama", "llava-onevision"):
        found = rate(partial(planned, family, gpu="l4-24gb"))
        print(f"{family:<18}{found:>8.0f} searches/s on a GPU that is too small")
    return int(min(rates.values()) < WANTED)


if __name__ == "__main__":
    sys.exit(main())
