"""Compare a staged checkpoint with itself and with the plan's facts: a server loads it as it is.

Headers only: digests of all bytes are taken for the manifest anyway.
"""

import logging
from collections.abc import Iterator

from mm_api.base import Document
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.build_paths import PICKLE_SUFFIXES
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import InspectRefusedError, VerificationFailedError
from mm_runtime.inspect import weights
from mm_runtime.sources.identity import PARTS

log = logging.getLogger(__name__)

TOKENIZERS = ("tokenizer", "vocab", "spiece", "sentencepiece")
"""Beginnings of the names of files that hold a tokenizer."""


class CheckpointReport(Document):
    """What was found."""

    parameters: int
    files: list[str]


def verify_checkpoint(context: StepContext) -> None:
    """Write `checkpoint.json`; fail with everything that is wrong at once."""
    folder = context.paths.weights
    parts = tuple(part for part in PARTS if (folder / part).is_dir())
    try:
        found = (
            weights.read_parts(folder, parts, allow_pickle=False, config_dtype=None)
            if parts
            else weights.read(folder, allow_pickle=False, config_dtype=None)
        )
    except InspectRefusedError as refusal:
        raise VerificationFailedError(f"The staged checkpoint cannot be served: {refusal}") from (
            refusal
        )
    if problems := list(_problems(context, found)):
        raise VerificationFailedError(
            f"The staged checkpoint cannot be served: {'; '.join(problems)}."
        )
    log.info("%d weights in %d files", found.parameters, len(found.files))
    report = CheckpointReport(parameters=found.parameters, files=list(found.files))
    write_durably(context.paths.checkpoint_report, report.to_json(indent=1))


def _problems(context: StepContext, found: weights.Weights) -> Iterator[str]:
    folder, facts = context.paths.weights, context.plan.facts
    names = sorted(path.name for path in folder.rglob("*") if path.is_file())
    pickles = [name for name in names if name.endswith(tuple(PICKLE_SUFFIXES))]
    if pickles:
        yield f"{pickles[0]} is a pickle, and a server is given safetensors only"
    if facts.weight_format == "safetensors" and found.parameters != facts.parameters:
        yield f"it holds {found.parameters} weights, and the plan was made for {facts.parameters}"
    if "config.json" not in names:
        yield "it has no config.json"
    if not any(name.startswith(TOKENIZERS) for name in names):
        yield "it has no tokenizer, which the server needs: add the tokenizer's files to the source"


if __name__ == "__main__":
    run_step(verify_checkpoint)
