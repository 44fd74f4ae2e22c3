"""What all steps share: their command line, and errors as exit codes."""

import argparse
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.build.durable import writing_to
from mm_runtime.build.places import Places
from mm_runtime.errors import RuntimeCommandError


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a step may read and where it may write."""

    plan: BuildPlan
    source: Path
    places: Places


def run_step(work: Callable[[StepContext], None]) -> None:
    """Parse the command line, do the work, exit. The last line of output says what went wrong."""
    parser = argparse.ArgumentParser(description=work.__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--fingerprint", required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    places = Places(arguments.store, arguments.fingerprint)
    plan = BuildPlan.from_json(places.plan.read_bytes())
    try:
        with writing_to(arguments.store):
            work(StepContext(plan, arguments.source, places))
    except RuntimeCommandError as error:
        logging.getLogger(__name__).error("%s", error)  # noqa: TRY400 (the message is the report)
        sys.exit(error.exit_code)
