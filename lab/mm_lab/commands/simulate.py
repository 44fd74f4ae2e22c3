"""`mm-lab simulate -f FILE --trace FILE`: what a spec would have done with a trace."""

import argparse
import csv
import io
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from typing import Any, Final, cast

import yaml

from mm_api.v1alpha1 import AutoscalingSpec, MultimodalModelSpec
from mm_api.v1alpha1.validation import validate
from mm_ctl.documents import UsageError, name_of, read_models, read_text
from mm_lab.simulation import Plan, Request, Score, ServiceProfile, simulate
from mm_lab.simulation.constant import Constant
from mm_lab.simulation.profile import H100_CLASS
from mm_lab.simulation.score import Targets
from mm_lab.simulation.slo_policy import SloPolicy
from mm_operator.autoscaling import LatencyMetric, Objectives
from mm_operator.autoscaling.wording import replicas
from mm_operator.scaling.evaluation import objectives_of

COLUMNS = ("at", "image_tokens", "text_tokens", "output_tokens")
_LONGEST: Final = 31 * 86400.0
"""Seconds of a trace. Every second is simulated: a month takes minutes, a date none ends."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "-f", "--filename", required=True, help="YAML file with one MultimodalModel"
    )
    parser.add_argument(
        "--trace", required=True, help=f"CSV with the columns {','.join(COLUMNS)}; at in seconds"
    )
    parser.add_argument(
        "--profile",
        help="YAML file with the service times of one replica: "
        f"{', '.join(field.name for field in fields(ServiceProfile))}; absent: {H100_CLASS.name}",
    )
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")


def run(options: argparse.Namespace) -> int:
    """Print what would have happened.

    Raises:
        UsageError: a file cannot be used.
    """
    autoscaling = _autoscaling(options.filename)
    trace = read_trace(read_text(options.trace), options.trace)
    profile = _profile(options.profile)
    objectives = replace(
        objectives_of(autoscaling, slots_per_replica=profile.slots), cost=profile.cost
    )
    for note in _not_simulated(autoscaling):
        print(f"note: {note}", file=sys.stderr)
    plan = _plan(objectives, profile)
    policy = SloPolicy(objectives, cold_start_seconds=profile.cold_start_seconds)
    score = simulate(trace, policy, plan)
    same = _constant_of_same_cost(score, trace, objectives)
    constant = simulate(trace, Constant(same), _plan(objectives, profile, same))
    if options.output == "json":
        body = {"autoscaling": asdict(score), f"constant{same}": asdict(constant)}
        print(json.dumps(body | {"profile": asdict(profile)}, indent=2))
        return 0
    print(f"{len(trace)} requests over {trace[-1].at / 60:.0f} min, {profile.name}")
    print(f"autoscaling:         {_line(score)}")
    print(f"{replicas(same)}, constant: {_line(constant)}")
    decisions = [one for one in policy.decisions if one.replicas != one.current]
    for change, decision in zip(score.changes, decisions, strict=True):
        moved = f"{change.before} -> {change.after}"
        print(f"  {change.at / 60:6.1f} min  {moved:9} {decision.reason.value}: {decision.message}")
    return 0


def read_trace(text: str, name: str) -> list[Request]:
    """Return the requests of a CSV, in order of arrival.

    Raises:
        UsageError: a column is missing, or a row is no request.
    """
    reader = csv.DictReader(io.StringIO(text))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise UsageError(f"{name} cannot be read as a CSV file: {error}") from error
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise UsageError(
            f"{name}: the first line must name {', '.join(COLUMNS)}; it lacks {missing}"
        )
    trace = [_request(row, name, number) for number, row in enumerate(rows, start=2)]
    if not trace:
        raise UsageError(f"{name} holds no request")
    return sorted(trace)


def _request(row: dict[str, Any], name: str, number: int) -> Request:
    try:
        request = Request(float(row["at"]), *(int(row[column] or 0) for column in COLUMNS[1:]))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}, line {number}: {error}; write numbers") from error
    if not request.at >= 0 or min(request[1:]) < 0:
        raise UsageError(f"{name}, line {number}: times and tokens are 0 or more")
    if request.at > _LONGEST:
        raise UsageError(
            f"{name}, line {number}: at is {request.at:g}, more than {_LONGEST:.0f}: write seconds "
            "from the start of the trace, of at most 31 days"
        )
    return request


def _autoscaling(name: str) -> AutoscalingSpec:
    documents = read_models(name)
    if len(documents) != 1:
        raise UsageError(f"{name} holds {len(documents)} models; simulate one")
    problems = validate(documents[0])
    if problems:
        raise UsageError(f"{name_of(documents[0])}: {problems[0]}")
    autoscaling = MultimodalModelSpec.model_validate(documents[0]["spec"]).autoscaling
    if autoscaling is None:
        raise UsageError(
            f"{name_of(documents[0])} has no spec.autoscaling: there is nothing to simulate"
        )
    return autoscaling


def _profile(name: str | None) -> ServiceProfile:
    if name is None:
        return H100_CLASS
    try:
        found = yaml.safe_load(read_text(name))
    except yaml.YAMLError as error:
        raise UsageError(f"{name} is not a service profile: {error}") from error
    given = found if isinstance(found, dict) else {}
    every = [field.name for field in fields(ServiceProfile)]
    optional = {"beside_seconds"}
    missing = [one for one in every if one not in given and one not in optional]
    if missing or not set(given) <= set(every):
        unknown = [str(one) for one in given if one not in every]
        raise UsageError(
            f"{name} is not a service profile: expected {', '.join(every)}; it lacks "
            f"{', '.join(missing) or 'nothing'} and has {', '.join(unknown) or 'nothing'} besides"
        )
    for one in every[1:]:
        _refuse_number(name, one, given.get(one, 0.0))
    return ServiceProfile(**{**given, "name": str(given["name"])})


def _refuse_number(name: str, field: str, value: object) -> None:
    is_integer = field in {"slots", "queue_size"}
    least = 1 if field == "slots" else 0
    # True is a number for Python, and none in a file.
    if isinstance(value, int if is_integer else int | float) and not isinstance(value, bool):
        number = cast("float", value)
        if least <= number < math.inf:
            return
    kind = "whole number" if is_integer else "number of seconds"
    raise UsageError(f"{name}: {field} is {value!r}: expected a {kind}, {least} or more")


def _not_simulated(autoscaling: AutoscalingSpec) -> Iterator[str]:
    if autoscaling.mode != "Enforce":
        yield f"mode is {autoscaling.mode}: this is what Enforce would have done"


def _plan(objectives: Objectives, profile: ServiceProfile, start: int = 0) -> Plan:
    return Plan(
        profile=profile,
        targets=Targets(
            first_token_seconds=_target(objectives, LatencyMetric.TTFT),
            inter_token_seconds=_target(objectives, LatencyMetric.ITL),
            request_seconds=_target(objectives, LatencyMetric.REQUEST),
            queue_seconds=_target(objectives, LatencyMetric.QUEUE),
        ),
        start_replicas=max(1, start or objectives.min_replicas),
        min_replicas=min(start or objectives.min_replicas, objectives.min_replicas),
        max_replicas=max(start, objectives.max_replicas),
    )


def _target(objectives: Objectives, metric: LatencyMetric) -> float:
    targets = [one.target_seconds for one in objectives.latencies if one.metric is metric]
    return min(targets, default=math.inf)


def _constant_of_same_cost(score: Score, trace: list[Request], objectives: Objectives) -> int:
    hours = max(trace[-1].at, 1.0) / 3600
    return max(objectives.min_replicas, 1, round(score.replica_hours / hours))


def _line(score: Score) -> str:
    return (
        f"{score.attainment:.2%} kept the objectives, p99 first token "
        f"{score.first_token_p99_seconds:.2f} s, {score.refused} refused, "
        f"{score.replica_hours:.2f} replica hours, {len(score.changes)} changes, "
        f"{score.reversals} reversals"
    )
