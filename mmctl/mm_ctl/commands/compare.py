"""`mmctl compare NAME --reference`: a running model against transformers in float32.

A pod of the model's own image computes the checkpoint's answers to 20 prompts and sends the same
prompts to the model. The figures go into the model's annotation, from which the operator writes
`status.evaluation`.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from mm_api import labels
from mm_api.conditions import ConditionType
from mm_api.documents.evaluation import EvaluationReport
from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_api.v1alpha1.quantity import bytes_of
from mm_ctl.comparing.pod import CompareFailedError, compare_pod, run_to_end
from mm_ctl.connection import Connection, add_model_option, connection, missing
from mm_ctl.documents import UsageError
from mm_operator import names
from mm_operator.cluster.resources import DEPLOYMENT, MODEL

AGREES, FAILED, NOT_READY, DIFFERS = 0, 1, 4, 5
_LEAST_BYTES = 2 << 30
"""Torch and transformers take 0.7 GiB before anything is loaded."""

_MIB = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--reference",
        action="store_true",
        required=True,
        help="compare with the checkpoint in transformers; there is no other way yet",
    )
    parser.add_argument(
        "--memory",
        help="memory of the pod that computes, for example 8Gi; default: twice what the build's "
        "evaluation took, at least 2Gi",
    )
    parser.add_argument("--timeout", default="30m", help="longest time; default: 30m")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    add_model_option(parser)


async def run(options: argparse.Namespace) -> int:
    """Compare, print and record; exit code 0 agrees, 4 not ready, 5 differs."""
    seconds = int(_parsed("--timeout", options.timeout, duration.parse).total_seconds())
    if options.memory is not None and _parsed("--memory", options.memory, bytes_of) < 1:
        raise UsageError("--memory must be above zero, for example 8Gi")
    async with connection(options) as there:
        model = await there.client.get(MODEL, there.namespace, options.name)
        if model is None:
            return missing(there, options.name)
        if found := obstacle(model):
            why, code = found
            return _failed(f"{there.namespace}/{options.name}: {why}", code)
        try:
            report = await _compared(there, model, options, seconds)
        except CompareFailedError as error:
            return _failed(str(error), FAILED)
        page = as_page(f"{there.namespace}/{options.name}", report)
        print(report.to_json(indent=2) if options.output == "json" else page)
        if changed := await _changed(there, options.name, report):
            return _failed(f"not recorded: {changed}", FAILED)
        body = {"metadata": {"annotations": {labels.COMPARISON: report.to_json()}}}
        await there.client.merge(MODEL, there.namespace, options.name, body, manager="mmctl")
    return DIFFERS if report.first_difference else AGREES


async def _compared(
    there: Connection, model: Mapping[str, Any], options: argparse.Namespace, seconds: int
) -> EvaluationReport:
    deployment = await there.client.get(DEPLOYMENT, there.namespace, names.deployment(options.name))
    if deployment is None:
        raise CompareFailedError("the model has no Deployment: wait for its rollout")
    memory = options.memory or f"{-(-_memory_bytes(model) // _MIB)}Mi"
    pod = compare_pod(deployment, model["status"]["url"], memory=memory, seconds=seconds)
    name = pod["metadata"]["name"]
    return await run_to_end(
        there.client,
        pod,
        seconds,
        lambda phase: print(f"pod {name}: {phase[:1].lower()}{phase[1:]}", file=sys.stderr),
    )


def _memory_bytes(model: Mapping[str, Any]) -> int:
    cost = (model["status"].get("plan") or {}).get("evaluation") or {}
    return max(_LEAST_BYTES, 2 * int(cost.get("memoryBytes") or 0))


def obstacle(model: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return why a model cannot be compared, and the exit code; None: it can."""
    engine = MultimodalModelSpec.model_validate(model["spec"]).engine
    if engine.parallelism.nodes > 1:
        return "replicas of several nodes are not compared in this version", FAILED
    backend = engine.traits
    if backend.builds_engines:
        return (
            f"an engine of backend {backend.name} holds no checkpoint: its pods compare it with "
            "the answers that its build kept (spec.build.evaluation Auto)"
        ), FAILED
    status = model.get("status") or {}
    held = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    if held.get(ConditionType.AVAILABLE) != "True" or not status.get("url"):
        return "it does not answer yet: mmctl status says why", NOT_READY
    if held.get(ConditionType.ROLLING_OUT) == "True":
        return (
            "a rollout is under way, and two revisions may answer: compare it afterwards",
            NOT_READY,
        )
    return None


async def _changed(there: Connection, name: str, report: EvaluationReport) -> str | None:
    """Return why the report is no longer about the model; None: it is."""
    model = await there.client.get(MODEL, there.namespace, name)
    planned = ((model or {}).get("status") or {}).get("plan") or {}
    if planned.get("fingerprint") == report.fingerprint:
        return None
    return "another engine is planned now: run it again after the rollout"


def _parsed(option: str, text: str, parse: Any) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _failed(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


_WIDTH = 18


def as_page(name: str, report: EvaluationReport) -> str:
    """Return the page; `name` is namespace/model."""
    return "\n".join(_lines(name, report))


def _lines(name: str, report: EvaluationReport) -> Iterator[str]:
    figures = report.reference
    dtype = figures.dtype if figures else "?"
    verdict = "agrees with" if report.first_difference is None else "differs from"
    yield f"{name} {verdict} its checkpoint (transformers, {dtype})"
    agreeing = report.prompts - report.failed_prompts
    ties = f", {report.near_ties} part where two tokens are nearly tied" if report.near_ties else ""
    yield _row("Prompts", f"{agreeing} of {report.prompts} agree{ties}")
    yield _row("Tokens", f"{report.agreed} of {report.tokens} compared are equal")
    if figures is None:
        return
    first = figures.first_differing_token
    yield _row("First difference", f"token {first} of an answer" if first else "none")
    if report.log_prob_distance is None:
        yield _row("Log probabilities", "the server returns none")
    else:
        mean = figures.mean_log_prob_distance or 0.0
        yield _row(
            "Log probabilities",
            f"mean {mean:.5f}, largest {report.log_prob_distance:.3f} standard deviations of the "
            "checkpoint's logits",
        )
    yield _row("Threshold", f"{figures.bound:.2f} of them, by what the engine computes in")
    if problem := report.problem:
        yield f"  {problem}"


def _row(name: str, text: str) -> str:
    return f"  {name:<{_WIDTH}} {text}"
