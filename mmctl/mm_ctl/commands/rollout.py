"""`mmctl rollout status | promote | abort NAME`: a rollout with strategy Canary, and its end."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from mm_api import labels
from mm_ctl.connection import add_model_option, connection, read_model
from mm_operator.cluster.resources import MODEL

WELL, FAILED = 0, 1
_COMMANDS = {
    "status": "show step, weight and comparisons",
    "promote": "end the canary: all pods get its revision, also one that was rolled back",
    "abort": "end the canary: all pods get the former revision",
}
_PHASES = {"promote": ("Progressing", "RolledBack"), "abort": ("Progressing",)}


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="rollout_command", required=True, metavar="COMMAND")
    for name, text in _COMMANDS.items():
        words = commands.add_parser(name, help=text, description=text)
        if name == "status":
            words.add_argument("-o", "--output", choices=["text", "json"], default="text")
        add_model_option(words)


async def run(options: argparse.Namespace) -> int:
    """Print the state, or write what is requested; exit code 1: there is nothing to end."""
    model = await read_model(options)
    if model is None:
        return FAILED
    rollout = (model.get("status") or {}).get("rollout") or {}
    command = options.rollout_command
    if command == "status":
        as_json = options.output == "json"
        print(json.dumps(rollout, indent=2) if as_json else "\n".join(sentences(rollout)))
        return WELL
    if rollout.get("phase") not in _PHASES[command]:
        print(f"nothing to {command}: {next(sentences(rollout))}", file=sys.stderr)
        return FAILED
    body = {"metadata": {"annotations": {labels.ROLLOUT: f"{command} {rollout['revision']}"}}}
    async with connection(options) as there:
        await there.client.merge(MODEL, there.namespace, options.name, body, manager="mmctl")
    print(f"requested: {command} {rollout['revision'][: labels.REVISION_DIGITS]}")
    return WELL


def sentences(rollout: Mapping[str, Any]) -> Iterator[str]:
    """Yield the state of a canary line by line."""
    if not rollout:
        yield "there was no rollout with strategy Canary since the last other one"
        return
    revision = rollout["revision"][: labels.REVISION_DIGITS]
    yield (
        f"revision {revision}: {rollout['phase']}, step {rollout['step']}, "
        f"{rollout['weight']} % of the chats, since {rollout['since']}"
    )
    if text := rollout.get("message"):
        yield f"  {': '.join(filter(None, (rollout.get('reason'), text)))}"
    for one in rollout.get("comparisons") or ():
        pairs = f"{one['worse']} worse, {one['better']} better, {one['equal']} equal"
        yield f"  {one['name']:<14} {one['verdict']:<8} {pairs}"
