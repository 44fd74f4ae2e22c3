"""`mmctl plan -f FILE --facts FILE`: the operator's plan, without a cluster or a GPU."""

import argparse
import json
import sys

from pydantic import ValidationError

from mm_api.conditions import Reason
from mm_api.documents.model_facts import InspectResult, ModelFacts
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.validation import validate
from mm_operator.cli.documents import UsageError, name_of, read_models, read_text
from mm_operator.errors import SpecError
from mm_operator.plan.draft import Draft, draft
from mm_operator.settings import BUILDER_VERSION

HELP = "compute limits, memory and pools of a resource from an inspection (mm-runtime inspect)"
FITS, INVALID, DOES_NOT_FIT = 0, 2, 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("-f", "--filename", required=True, help="YAML file with one resource")
    parser.add_argument(
        "--facts", required=True, help="JSON that mm-runtime inspect printed; - is standard input"
    )
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")


def run(options: argparse.Namespace) -> int:
    """Print the plan; the exit code says whether it is valid and fits."""
    documents = read_models(options.filename)
    if len(documents) > 1:
        raise UsageError(f"{options.filename} holds {len(documents)} resources: give one")
    document = documents[0]
    if problems := validate(document):
        for problem in problems:
            print(f"{name_of(document)}: {problem}", file=sys.stderr)
        return INVALID
    spec = MultimodalModelSpec.model_validate(document["spec"])
    try:
        planned = draft(
            model=name_of(document),
            spec=spec,
            facts=_facts(read_text(options.facts), options.facts),
            builder_version=BUILDER_VERSION,
        )
    except SpecError as error:
        print(f"{name_of(document)}: {error}", file=sys.stderr)
        return DOES_NOT_FIT if error.reason == Reason.DOES_NOT_FIT else INVALID
    print(_as_json(planned) if options.output == "json" else _as_text(planned))
    return FITS


def _facts(text: str, name: str) -> ModelFacts:
    """Return the facts of an inspection's result, or of a document that is the facts alone."""
    try:
        if "facts" not in json.loads(text) and "error" not in json.loads(text):
            return ModelFacts.from_json(text)
        result = InspectResult.from_json(text)
    except (ValidationError, ValueError, TypeError) as error:
        raise UsageError(f"{name} is not what mm-runtime inspect prints: {error}") from error
    if result.facts is None:
        why = result.error.message if result.error else "it holds no facts"
        raise UsageError(f"{name}: the inspection failed: {why}")
    return result.facts


def _as_json(planned: Draft) -> str:
    return json.dumps(
        {
            "buildPlan": planned.build_plan.model_dump(mode="json", by_alias=True),
            "servingPlan": planned.serving_plan.model_dump(mode="json", by_alias=True),
            "memory": planned.footprint.status().model_dump(mode="json", by_alias=True),
        },
        indent=2,
    )


def _as_text(planned: Draft) -> str:
    """Return each number with its reason, then the bytes, then the identity of the engine."""
    memory = planned.footprint.status().model_dump(by_alias=True)
    lines = [f"{choice.field} = {choice.value}: {choice.reason}" for choice in planned.choices]
    lines += [f"{name} = {value:,}" for name, value in memory.items()]
    lines.append(f"fingerprint = {planned.build_plan.fingerprint}")
    return "\n".join(lines)
