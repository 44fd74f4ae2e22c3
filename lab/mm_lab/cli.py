"""`mm-lab`: parses the command line, runs one command, returns its exit code.

Exit codes: 0 success, 1 nothing was answered, 2 the request or a file is invalid.
"""

import argparse
from collections.abc import Sequence

from mm_ctl.cli import run_command

COMMANDS = {
    "bench": "load an OpenAI endpoint with texts and images; report latencies, goodput and errors",
    "simulate": "show what the autoscaling of a spec would have done with a trace of requests",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="mm-lab", description="Loads OpenAI endpoints and simulates the autoscaling of specs."
    )
    return run_command(parser, "mm_lab.commands", COMMANDS, arguments)
