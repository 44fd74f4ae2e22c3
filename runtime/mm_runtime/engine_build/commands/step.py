"""What all steps share: their command line, and errors as exit codes."""

import argparse
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mm_api.contract import ExitCode
from mm_api.documents.build_plan import BuildPlan
from mm_runtime.base.durable import writing_to
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.errors import RuntimeCommandError


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a step may read and where it may write."""

    plan: BuildPlan
    source: str
    """The value of `--source`; see `mm_runtime.sources.address`."""
    paths: BuildPaths


def run_step(work: Callable[[StepContext], None]) -> NoReturn:
    """Parse the command line, do the work, exit. The last line of output says what went wrong."""
    parser = argparse.ArgumentParser(description=work.__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--fingerprint", required=True)
    arguments = parser.parse_args()
    # Libraries speak from WARNING on: the exporter alone logs a line for every weight it shares.
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    for name in ("__main__", "mm_runtime"):
        logging.getLogger(name).setLevel(logging.INFO)
    beside = BuildPaths(arguments.store, arguments.fingerprint)
    plan = BuildPlan.from_json(beside.plan.read_bytes())
    paths = BuildPaths.of(arguments.store, plan)
    try:
        with writing_to(arguments.store):
            work(StepContext(plan, arguments.source, paths))
    except RuntimeCommandError as error:
        logging.getLogger(__name__).error("%s", error)  # noqa: TRY400 (the message is the report)
        _leave(error.exit_code)
    _leave(ExitCode.OK)


def _leave(code: ExitCode) -> NoReturn:
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
