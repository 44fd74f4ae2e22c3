"""`mmctl status NAME`: where a model stands, in sentences."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from mm_ctl.connection import add_model_option, read_model

READY, NOT_THERE, NOT_READY = 0, 1, 4


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    add_model_option(parser)


async def run(options: argparse.Namespace) -> int:
    """Print the state; exit code 0 when the model is Ready, 4 when it is not."""
    model = await read_model(options)
    if model is None:
        return NOT_THERE
    if options.output == "json":
        print(json.dumps(model.get("status", {}), indent=2))
    else:
        print("\n".join(sentences(model)))
    return READY if _holds(model, "Ready") else NOT_READY


def sentences(model: Mapping[str, Any]) -> Iterator[str]:
    """Yield the state of a model line by line."""
    metadata, status = model["metadata"], model.get("status") or {}
    name = f"{metadata['namespace']}/{metadata['name']}"
    if not status:
        yield f"{name}: the operator has not reconciled it yet; check that it is running"
        return
    yield f"{name}: {'ready' if _holds(model, 'Ready') else 'not ready'}"
    if status.get("observedGeneration") != metadata.get("generation"):
        yield "  (this is the state of an older spec; the new one is not reconciled yet)"
    for condition in status.get("conditions") or ():
        mark = {"True": "yes", "False": "no"}.get(condition["status"], "unknown")
        text = condition.get("message") or condition["reason"]
        first, *rest = text.splitlines()
        yield f"  {condition['type']:<14} {mark:<8} {condition['reason']}: {first}"
        yield from (f"{'':<25} {line}" for line in rest)
    ready, there = status.get("readyReplicas", 0), status.get("replicas", 0)
    yield f"  {'Replicas':<14} {ready} of {there} ready"
    if compared := status.get("evaluation"):
        figures = f"{compared['agreed']} of {compared['tokens']} tokens as the checkpoint answers"
        yield f"  {'Evaluation':<14} {figures}, {compared['prompts']} prompts"
    if url := status.get("url"):
        yield f"  {'Address':<14} {url}"
    if digest := (status.get("plan") or {}).get("fingerprint"):
        yield f"  {'Engine':<14} {digest[:16]}"


def _holds(model: Mapping[str, Any], kind: str) -> bool:
    conditions = (model.get("status") or {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)
