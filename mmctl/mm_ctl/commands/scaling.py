"""`mmctl scaling explain NAME`: why a model has the replicas it has."""

import argparse
import json

from mm_ctl.commands.scaling_explanation import explain
from mm_ctl.connection import add_model_option, read_model

EXPLAIN = "explain why a model has the replicas it has, and what would change that"
WELL, NOT_THERE = 0, 1


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="scaling_command", required=True, metavar="COMMAND")
    words = commands.add_parser("explain", help=EXPLAIN, description=EXPLAIN)
    words.add_argument("-o", "--output", choices=["text", "json"], default="text")
    add_model_option(words)


async def run(options: argparse.Namespace) -> int:
    model = await read_model(options)
    if model is None:
        return NOT_THERE
    if options.output == "json":
        print(json.dumps((model.get("status") or {}).get("scaling") or {}, indent=2))
    else:
        print("\n".join(explain(model)))
    return WELL
