"""`mmctl logs NAME`: the logs of what a model is at: its inspection, its build or its servers."""

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from mm_api.labels import APP_COMPONENT, MODEL, Component
from mm_ctl.commands.status import stages
from mm_ctl.connection import add_model_option, kubectl_options, read_model
from mm_ctl.documents import UsageError

NOT_THERE = 1
COMPONENTS = (
    *(Component.INSPECT, Component.BUILD, Component.SERVER),
    *(Component.WORKER, Component.CANARY, Component.ENCODER),
)
_OF_STAGE = {"Planned": Component.INSPECT, "EngineBuilt": Component.BUILD}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--component", choices=COMPONENTS, help="default: the first stage that is not complete")
    add("-c", "--container", help="container of the pods; default: all")
    add("-f", "--follow", action="store_true", help="print new lines until interrupted")
    add("-p", "--previous", action="store_true", help="logs of containers before their restart")
    add("--tail", type=int, default=100, help="lines of each container; -1: all")
    add_model_option(parser)


async def run(options: argparse.Namespace) -> int:
    """Print them as kubectl does, and return its exit code; 1 when there is no such model."""
    model = await read_model(options)
    if model is None:
        return NOT_THERE
    options.namespace = model["metadata"]["namespace"]
    words = ["logs", *_pods(model, options.component), "--prefix", f"--tail={options.tail}"]
    words.append(f"--container={options.container}" if options.container else "--all-containers")
    words += [f"--{name}" for name in ("follow", "previous") if getattr(options, name)]
    try:
        shown = await asyncio.create_subprocess_exec("kubectl", *words, *kubectl_options(options))
    except FileNotFoundError as error:
        raise UsageError("there is no kubectl: install it") from error
    return await shown.wait()


def _pods(model: Mapping[str, Any], component: str | None) -> list[str]:
    """Return the words by which kubectl finds the pods of a component."""
    if component is None:
        stage = next((stage for stage, mark in stages(model) if mark != "✓"), "Ready")
        component = _OF_STAGE.get(stage, Component.SERVER)
    job = ((model.get("status") or {}).get("build") or {}).get("jobName")
    if component == Component.BUILD and job:  # models share it, so it has no label of one
        return [f"job/{job}"]
    name = model["metadata"]["name"]
    return [f"--selector={MODEL}={name},{APP_COMPONENT}={component}", "--max-log-requests=50"]
