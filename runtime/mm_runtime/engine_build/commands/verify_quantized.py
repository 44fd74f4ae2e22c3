"""Compare a quantized checkpoint with the one it was made of, number by number."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import torch

from mm_api.base import Document
from mm_api.documents.quantization import HF_QUANT_CONFIG, StagedQuantization
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError, VerificationFailedError
from mm_runtime.quantization.tensors import SCALE, WEIGHT, Tensors, is_excluded

log = logging.getLogger(__name__)

RELATIVE = 2.0**-4 + 2.0**-7
"""Half a step of FP8 E4M3, which keeps 3 bits behind the first; the rest is for a division in
BF16 on the way there (8 bits)."""

ABSOLUTE = 2.0**-10 * 1.01
"""Half of E4M3's smallest number, 2^-9, in units of the scale."""

VISION_MODULES = ("visual.", "vision_model.", "vision_tower.", "multi_modal_projector.")
"""Beginnings of the names of what reads images."""

MAX_REPORTED = 5
"""Problems in a message: as a rule all have one cause."""


class QuantizedReport(Document):
    """What was found."""

    quantized: int
    kept: int
    largest_error: float


def verify_quantized(context: StepContext) -> None:
    """Write `quantized.json`; fail with what is wrong."""
    paths, requested = context.paths, context.plan.quantization
    if requested is None:
        raise PermanentError("The plan quantizes nothing; let this version's operator plan again.")
    path = paths.staged_checkpoint / HF_QUANT_CONFIG
    found: dict[str, Any] = json.loads(path.read_bytes())["quantization"]
    with Tensors(paths.weights) as before, Tensors(paths.staged_checkpoint) as after:
        problems = [*_settings(requested, found), *_layout(found, before, after)]
        largest = 0.0
        if not problems:
            for name in before.names:
                error, problem = _compared(name, before, after)
                largest = max(largest, error)
                problems += [problem] if problem else []
        report = QuantizedReport(
            quantized=len(after.quantized), kept=len(after.kept), largest_error=largest
        )
    if problems:
        raise VerificationFailedError(
            "The quantized checkpoint does not match the request:"
            f" {'; '.join(problems[:MAX_REPORTED])}."
        )
    log.info(
        "%d matrices quantized, %d kept, largest relative error %.4f",
        report.quantized,
        report.kept,
        largest,
    )
    write_durably(paths.quantized_report, report.to_json(indent=1))


def _settings(requested: StagedQuantization, found: dict[str, Any]) -> Iterator[str]:
    for name, wanted in (
        ("quant_algo", requested.weights),
        ("kv_cache_quant_algo", requested.kv_cache),
    ):
        if found.get(name) != wanted:
            yield f"{HF_QUANT_CONFIG} says {name} = {found.get(name)}; the plan says {wanted}"


def _layout(found: dict[str, Any], before: Tensors, after: Tensors) -> Iterator[str]:
    """Yield what a server could not load, or would load as something else."""
    lost = sorted({*before.names} - {*after.names})
    if lost:
        yield f"{len(lost)} tensors are gone, {lost[0]} for one"
    if not after.quantized:
        yield "nothing is quantized"
    patterns: list[str] = found.get("exclude_modules") or []
    for module in sorted(after.quantized):
        if module.startswith(VISION_MODULES):
            yield f"{module} reads images and is quantized"
        if is_excluded(module, patterns):
            yield f"{module} is quantized, and {HF_QUANT_CONFIG} excludes it"
    for module in after.kept:
        if not is_excluded(module, patterns):
            yield f"{module} is not quantized, and {HF_QUANT_CONFIG} does not exclude it"


def _compared(name: str, before: Tensors, after: Tensors) -> tuple[float, str]:
    """Return the largest relative error of a tensor's larger numbers, and what is wrong with it."""
    old, new = before.read(name), after.read(name)
    if old.shape != new.shape:
        return 0.0, f"{name} has the shape {list(new.shape)}; it had {list(old.shape)}"
    if name.removesuffix(WEIGHT) not in after.quantized:
        equal = old.dtype == new.dtype and torch.equal(old, new)
        return 0.0, "" if equal else f"{name} is not quantized and has other numbers"
    if new.dtype != torch.float8_e4m3fn:
        return 0.0, f"{name} is stored as {new.dtype}; expected FP8 E4M3"
    scale = after.read(f"{name.removesuffix(WEIGHT)}{SCALE}").float()
    exact = old.float()
    error = (new.float() * scale - exact).abs()
    allowed = torch.maximum(exact.abs() * RELATIVE, scale * ABSOLUTE)
    if not bool((error <= allowed).all()):
        worst = float((error - allowed).max())
        return 0.0, f"{name} differs by {worst:.3g} more than FP8 with its scale may"
    larger = exact.abs() > scale * 2.0**-6  # E4M3's smallest normal number
    ratios = error[larger] / exact.abs()[larger]
    return (float(ratios.max()) if ratios.numel() else 0.0), ""


if __name__ == "__main__":
    run_step(verify_quantized)
