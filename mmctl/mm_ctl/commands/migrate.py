"""`mmctl migrate -f FILE`: the spec for TensorRT-LLM on PyTorch of a spec for TensorRT engines.

The new resource is YAML on standard output, below comments that list what changes. `--plan` adds
both plans side by side. Exit codes as of `mmctl plan`: 2 refused, 3 the new plan does not fit.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_api.v1alpha1.validation import validate
from mm_ctl.commands.migrated_page import as_page
from mm_ctl.commands.plan import GPU_OPTIONS, add_inputs, facts_of, flags_of, planned_from
from mm_ctl.commands.plan_comparison import side_by_side
from mm_ctl.documents import UsageError, name_of, read_model
from mm_ctl.migration.migrate import Migration, migrated
from mm_operator.errors import SpecError

HELP = "write the spec for backend PyTorch of a spec for TensorRT engines"
MIGRATED, REFUSED, DOES_NOT_FIT = 0, 2, 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_inputs(parser, required=False)
    parser.add_argument("--plan", action="store_true", help="show the plans before and after")
    parser.add_argument("-o", "--output", metavar="FILE", help="a new file; absent: print")


def run(options: argparse.Namespace) -> int:
    """Write the new spec; the exit code says whether there is one, and whether it fits."""
    document = read_model(options.filename)
    name = name_of(document)
    if problems := [str(one) for one in validate(document)]:
        return _refused(name, problems)
    known = bool(options.checkpoint or options.facts)
    if options.plan and not known:
        raise UsageError("--plan needs the checkpoint: give --checkpoint or --facts")
    if not options.plan and (given := flags_of(options, GPU_OPTIONS)):
        raise UsageError(
            f"{given}: a GPU is planned for with --plan alone: add it, or leave it out"
        )
    try:
        facts = facts_of(document, options) if known else None
        result = migrated(
            document,
            _family(document, facts),
            facts,
            image=options.image,
            version=options.trtllm_version,
        )
    except SpecError as error:
        return _refused(name, [f"{error} ({error.reason})"])
    problems = [str(one) for one in validate(result.document)]
    plans: tuple[ModelPlan, ModelPlan] | None = None
    if options.plan and facts is not None:
        plans = (
            planned_from(document, facts, options),
            planned_from(result.document, facts, options),
        )
        problems += [f"{one.path}: {one.message} ({one.code})" for one in plans[1].errors]
    if problems:
        return _refused(name, problems)
    _write(as_page(result, side_by_side(*plans) if plans else []), options.output)
    return _verdict(name, result, plans)


def _family(document: dict[str, Any], facts: ModelFacts | None) -> Family:
    family = facts.family if facts else document["spec"]["model"].get("family")
    if family is None:
        raise UsageError(
            "the family is not known: set spec.model.family, or give --checkpoint or --facts"
        )
    return FAMILIES[family]


def _verdict(name: str, result: Migration, plans: tuple[ModelPlan, ModelPlan] | None) -> int:
    lost = [change.path for change in result.changes if change.effect == "lost"]
    if lost:
        print(f"{name}: lost: {', '.join(lost)}", file=sys.stderr)
    fit = plans[1].fit if plans else None
    if fit is not None and fit.verdict == "DoesNotFit":
        print(f"{name}: does not fit: {fit.message}", file=sys.stderr)
        return DOES_NOT_FIT
    return MIGRATED


def _refused(name: str, problems: list[str]) -> int:
    for problem in problems:
        print(f"{name}: {problem}", file=sys.stderr)
    return REFUSED


def _write(page: str, output: str | None) -> None:
    if output is None:
        print(page, end="")
        return
    try:
        with Path(output).open("x", encoding="utf-8") as file:
            file.write(page)
    except FileExistsError as error:
        raise UsageError(f"{output} is there already: name a new file") from error
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error}") from error
