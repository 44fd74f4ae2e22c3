"""`mmctl scaling explain NAME`: why a model has the replicas it has."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from mm_ctl.connection import add_model_option, read_model
from mm_operator.autoscaling.wording import replicas
from mm_operator.plan.engine.bottleneck import measured

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


_SHOWN_INPUTS = {
    "demandForecast": "work that is about to arrive, in busy replicas",
    "demandPeak": "the highest of it in the last minutes",
    "utilisation": "work for each Ready replica",
    "pressure": "worst latency over its target, smoothed",
    "requestsPerSecond": "requests a second, mean of three minutes",
    "newestRequestsPerSecond": "requests a second between the last two scrapes",
    "refusedPerSecond": "refused a second because queues were full",
    "inFlightRequests": "requests running and waiting, mean of a minute",
    "queueGrowthPerSecond": "more of them each second",
    "pendingReplicas": "replicas requested that do not serve yet",
    "unschedulableReplicas": "replicas without a node",
}
"""Inputs that explain a decision, in the order of the output; JSON output has all."""


_PHASES = {
    "scheduled": "until it has a node",
    "pulled": "until its server's image runs",
    "loaded": "until the engine is loaded",
    "warm": "until it has answered for the first time",
}
_UNITS = {
    "requestSeconds": "a request",
    "imageTokenSeconds": "a token of an image",
    "textTokenSeconds": "a token of text",
    "outputTokenSeconds": "a generated token",
}


def explain(model: Mapping[str, Any], *, history: bool = True) -> Iterator[str]:
    """Yield the explanation line by line: of the replicas, then of encoders that are scaled.

    `history`: with the last changes.
    """
    yield from _explain_replicas(model, history=history)
    status = model.get("status") or {}
    follows = (model["spec"].get("vision") or {}).get("autoscaling")
    scaling = (status.get("encoders") or {}).get("scaling")
    if follows and scaling:
        wanted = f"{scaling['desired']} ({scaling['reason']})"
        yield f"Its encoders have {replicas(scaling['current'])} and should have {wanted}."
        yield from _explain_scaling(follows, scaling, {}, history=history)
    if text := measured(status):
        yield f"  {text}"


def _explain_replicas(model: Mapping[str, Any], *, history: bool) -> Iterator[str]:
    metadata, spec = model["metadata"], model["spec"]
    status = model.get("status") or {}
    name = f"{metadata['namespace']}/{metadata['name']}"
    requested = spec.get("replicas", 1)
    has = f"{name} has {replicas(requested)}"
    autoscaling, scaling = spec.get("autoscaling"), status.get("scaling") or {}
    if autoscaling is None or autoscaling.get("mode") == "Off":
        yield f"{has} because spec.replicas says so: autoscaling is off"
        return
    if not scaling:
        yield f"{has}; the autoscaler has not evaluated it yet"
        return
    desired = scaling.get("desired", requested)
    yield f"{has} and should have {desired} ({scaling.get('reason')})."
    yield from _explain_scaling(autoscaling, scaling, status, history=history)


def _explain_scaling(
    autoscaling: Mapping[str, Any],
    scaling: Mapping[str, Any],
    status: Mapping[str, Any],
    *,
    history: bool,
) -> Iterator[str]:
    if scaling.get("message"):
        yield f"  {scaling['message']}"
    yield from _condition(status)
    yield from _objectives(scaling)
    yield from _vetoes(scaling)
    yield from _inputs(scaling)
    yield from _work(scaling)
    yield from _outlook(autoscaling, scaling)
    if history:
        yield from _history(scaling)


def _condition(status: Mapping[str, Any]) -> Iterator[str]:
    for one in status.get("conditions") or ():
        if one["type"] == "ScalingActive":
            yield f"  ScalingActive is {one['status']}: {one.get('message') or one['reason']}"


def _objectives(scaling: Mapping[str, Any]) -> Iterator[str]:
    for one in scaling.get("objectives") or ():
        target, value = one["target"], one.get("value")
        if value is None:
            yield f"  {one['name']}: no recent request, so nothing was measured"
        else:
            word = "kept" if one.get("met") else "missed"
            yield f"  {one['name']}: {value:.3g} s against a target of {target:.3g} s: {word}"


def _vetoes(scaling: Mapping[str, Any]) -> Iterator[str]:
    for text in scaling.get("vetoes") or ():
        yield f"  held back by {text}"


def _inputs(scaling: Mapping[str, Any]) -> Iterator[str]:
    inputs = scaling.get("inputs") or {}
    for name, words in _SHOWN_INPUTS.items():
        if name in inputs:
            yield f"  {inputs[name]:g} {words}"
    if (full := inputs.get("fullLoad", 1.0)) < 1:
        yield (
            f"  a replica could do {full:.0%} of a counted replica's work when a queue grew before "
            "it: its costs were measured too low, or what they do not count is the bottleneck"
        )


def _work(scaling: Mapping[str, Any]) -> Iterator[str]:
    if work := scaling.get("work"):
        costs = ", ".join(
            f"{words} {work[name] * 1000:.3g} ms" for name, words in _UNITS.items() if work[name]
        )
        yield f"  work is counted in seconds of a replica, as its pods measured them: {costs}"
    else:
        yield "  work is counted in slots taken: no pod has measured what a token costs"
    if problem := scaling.get("workProblem"):
        yield f"  not all of what was measured is used: {problem}"


def _outlook(autoscaling: Mapping[str, Any], scaling: Mapping[str, Any]) -> Iterator[str]:
    """Yield what would have to happen for another number."""
    desired = scaling.get("desired") or 1
    inputs = scaling.get("inputs") or {}
    most, fewest = autoscaling.get("maxReplicas", 1), autoscaling.get("minReplicas", 1)
    target, forecast = inputs.get("utilisationTarget"), inputs.get("demandForecast")
    if desired >= most:
        yield f"  more: not above maxReplicas, which is {most}; raise it if the targets are missed"
    elif target and forecast is not None:
        warm = autoscaling.get("warmReplicas", 0)
        threshold = max(0, desired - warm) * target
        beside = f", {replicas(warm)} beside it staying warm" if warm else ""
        yield (
            f"  more: when the arriving work passes {threshold:.2g} busy replicas (now "
            f"{forecast:.2g}{beside}), or a latency misses its target"
        )
    if desired <= fewest:
        yield f"  fewer: not below minReplicas, which is {fewest}"
    else:
        yield (
            "  fewer: at most half of them at a time, when nothing above holds back, latencies are "
            "well below their targets and the work of the last minutes fits those that stay"
        )
    if seconds := scaling.get("coldStartSeconds"):
        yield f"  a new replica takes {seconds:.0f} s from being scheduled to Ready, as measured"
    phases = scaling.get("coldStartPhases") or {}
    parts = [f"{phases[name]:.3g} s {words}" for name, words in _PHASES.items() if name in phases]
    if parts:
        yield f"    {', '.join(parts)}"


def _history(scaling: Mapping[str, Any]) -> Iterator[str]:
    history = scaling.get("history") or []
    if history:
        yield "  last changes:"
    for one in history:
        yield (f"    {one['time']}  {one['fromReplicas']} -> {one['toReplicas']}  {one['reason']}")
