"""`mmctl status [NAME]`: the state of a model in sentences, or of all models in a line each."""

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mm_ctl.connection import Connection, add_model_option, connection, missing
from mm_operator.cluster.resources import MODEL

READY, NOT_THERE, NOT_READY = 0, 1, 4
STAGES = ("Planned", "EngineBuilt", "Ready")
_WATCH_SECONDS = 2.0
_GOOD, _BAD, _OPEN = "\033[32m", "\033[31m", "\033[33m"
_COLOURS = {"✓": _GOOD, "✗": _BAD, "…": _OPEN, "pass": _GOOD, "fail": _BAD, "warn": _OPEN}
_MARKS = re.compile("[✓✗…]|^(?:pass|fail|warn) ", re.MULTILINE)
_END, _CLEAR = "\033[0m", "\033[H\033[2J"

Model = Mapping[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_option(parser, optional=True)
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="models of all namespaces"
    )
    parser.add_argument("-w", "--watch", action="store_true", help="print again until interrupted")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")


async def run(options: argparse.Namespace) -> int:
    """Print the state; exit code 0 when each model is Ready, 4 when one is not."""
    shown = ""
    async with connection(options) as there:
        while True:
            models = await _models(there, options)
            if options.name and not models:
                return missing(there, options.name)
            text = _text(models, options)
            if text != shown:
                print((_CLEAR if options.watch and sys.stdout.isatty() else "") + text, flush=True)
            shown = text
            if not options.watch:
                return READY if all(_holds(one, "Ready") for one in models) else NOT_READY
            await asyncio.sleep(_WATCH_SECONDS)


async def _models(there: Connection, options: argparse.Namespace) -> list[dict[str, Any]]:
    if options.name:
        model = await there.client.get(MODEL, there.namespace, options.name)
        return [model] if model else []
    return await there.list(MODEL, None if options.all_namespaces else there.namespace)


def _text(models: Sequence[Model], options: argparse.Namespace) -> str:
    if options.output == "json":
        states = {key_of(model): model.get("status") or {} for model in models}
        return json.dumps(next(iter(states.values())) if options.name else states, indent=2)
    return coloured("\n".join(sentences(models[0]) if options.name else overview(models)))


def coloured(text: str) -> str:
    """Return a text with its marks in colours where a terminal shows it and NO_COLOR is not set."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return _MARKS.sub(lambda found: f"{_COLOURS[found[0].strip()]}{found[0]}{_END}", text)


def key_of(model: Model) -> str:
    return f"{model['metadata']['namespace']}/{model['metadata']['name']}"


def overview(models: Sequence[Model]) -> Iterator[str]:
    """Yield a line for each model: its stages, its replicas, and what it waits for."""
    if not models:
        yield "no models here: -A shows those of all namespaces"
    width = max((len(key_of(model)) for model in models), default=0)
    for model in models:
        marks = "  ".join(f"{mark} {stage}" for stage, mark in stages(model))
        replicas = (model.get("status") or {}).get("readyOfWanted", "-")
        yield f"{key_of(model):<{width}}  {marks}  {replicas:<5} {waits_for(model)}"


def waits_for(model: Model) -> str:
    """Return the reason of the first stage that is not complete, with the progress of a build."""
    stage = next((stage for stage, mark in stages(model) if mark != "✓"), "Ready")
    reason = (_condition(model, stage) or {"reason": "not reconciled yet"})["reason"]
    build = progress_of(model) if stage == "EngineBuilt" else ""
    return f"{reason}: {build}" if build else str(reason)


def stages(model: Model) -> Iterator[tuple[str, str]]:
    """Yield each stage with its mark: done, in work, in need of a person, or not yet."""
    before = True
    for stage in STAGES:
        if _holds(model, stage):
            yield stage, "✓"
        elif not before:
            yield stage, "·"
        else:
            yield stage, "✗" if _holds(model, "Degraded") else "…"
            before = False


def progress_of(model: Model) -> str:
    """Return the step that the build is at, and how far it is; empty: nothing is built now."""
    build = (model.get("status") or {}).get("build") or {}
    if build.get("phase") not in {"Pending", "Waiting", "Building"}:
        return ""
    return ", ".join(str(build[key]) for key in ("step", "progress") if build.get(key))


def sentences(model: Model) -> Iterator[str]:
    """Yield the state of a model line by line."""
    metadata, status = model["metadata"], model.get("status") or {}
    if not status:
        yield f"{key_of(model)}: the operator has not reconciled it yet; check that it is running"
        return
    yield f"{key_of(model)}: {'ready' if _holds(model, 'Ready') else 'not ready'}"
    if status.get("observedGeneration") != metadata.get("generation"):
        yield "  (this is the state of an older spec; the new one is not reconciled yet)"
    for condition in status.get("conditions") or ():
        mark = {"True": "yes", "False": "no"}.get(condition["status"], "unknown")
        text = condition.get("message") or condition["reason"]
        first, *rest = text.splitlines()
        yield f"  {condition['type']:<14} {mark:<8} {condition['reason']}: {first}"
        yield from (f"{'':<25} {line}" for line in rest)
    if build := progress_of(model):
        yield f"  {'Build':<14} {build}"
    ready, there = status.get("readyReplicas", 0), status.get("replicas", 0)
    yield f"  {'Replicas':<14} {ready} of {there} ready"
    if compared := status.get("evaluation"):
        figures = f"{compared['agreed']} of {compared['tokens']} tokens as the checkpoint answers"
        yield f"  {'Evaluation':<14} {figures}, {compared['prompts']} prompts"
    if url := status.get("url"):
        yield f"  {'Address':<14} {url}"
    if digest := (status.get("plan") or {}).get("fingerprint"):
        yield f"  {'Engine':<14} {digest[:16]}"


def _condition(model: Model, kind: str) -> dict[str, Any] | None:
    conditions = (model.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), None)


def _holds(model: Model, kind: str) -> bool:
    return (_condition(model, kind) or {}).get("status") == "True"
