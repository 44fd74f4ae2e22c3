"""Weights of a checkpoint in modules of torch: all of them, in their shapes, or a refusal by name.

transformers draws what a checkpoint lacks at random, leaves out what no module has, and says both
to a log. Which weights may be absent and which may be left over is declared by its classes: tied
weights, buffers that are computed, `_keys_to_ignore_on_load_*`. Its report has them no more. Of
those that it declares, buffers that it stores itself are not computed: BART's biases of logits.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from mm_api.checkpoint.quantized import SCALES
from mm_runtime.errors import WeightsUnusableError

NAMED = 3
"""Weights in a message; it says how many there are."""

Shape = Sequence[int]


def load_weights(
    kind: Any, folder: Path, *, in_part: bool = False, packed: int = 0, **given: Any
) -> Any:
    """Return a model of a class of transformers with every weight that the class has.

    `in_part`: the model lacks modules whose weights are in the checkpoint, so that those left over
    say nothing. Another loader must take them. `given`: arguments of `from_pretrained`. `packed`:
    numbers of a row that lie in one of a quantized matrix, with scales beside it; 0: none does.

    Raises:
        WeightsUnusableError: a weight is missing, left over, or has another shape.
    """
    release = tuple(int(part) for part in metadata.version("transformers").split(".")[:2])
    if release < (4, 56) and "dtype" in given:  # images hold older ones, with the older name
        given["torch_dtype"] = given.pop("dtype")
    model, report = kind.from_pretrained(
        folder,
        output_loading_info=True,
        # transformers would end with an error that names no weight and says to set this. What it
        # reports is refused here.
        ignore_mismatched_sizes=True,
        **given,
    )
    # Computed buffers are in older checkpoints, and transformers before 5 reports them.
    computed = {name for name, _ in model.named_buffers()}
    left_over = set(report["unexpected_keys"]) - computed
    reshaped = {name: (expected, found) for name, found, expected in report["mismatched_keys"]}
    if packed:
        left_over = {name for name in left_over if not name.endswith(SCALES)}
        reshaped = {
            name: (expected, found)
            for name, (expected, found) in reshaped.items()
            if [*found[:-1], found[-1] * packed] != [*expected]
        }
    missing = {*report["missing_keys"], *_buffers_not_stored(model, folder)}
    _refuse(type(model).__name__, missing, () if in_part else left_over, reshaped)
    return model


def _buffers_not_stored(model: torch.nn.Module, folder: Path) -> set[str]:
    """Return the buffers that the class stores, declares as dispensable, and a checkpoint lacks."""
    patterns = getattr(model, "_keys_to_ignore_on_load_missing", None) or ()
    stored = {name for name, _ in model.named_buffers()} & model.state_dict().keys()
    lacking = {name for name in stored if any(re.search(one, name) for one in patterns)}
    files = [*folder.glob("*.safetensors")] if lacking else []
    for path in files:
        with safe_open(path, framework="pt") as file:
            lacking -= {*file.keys()}
    return lacking if files else set()


def fill(module: torch.nn.Module, weights: Mapping[str, torch.Tensor], part: str) -> None:
    """Give a module of our own its weights, by their names; `part`: what it is; see `compare`."""
    compare(part, shapes_of(module.state_dict()), shapes_of(weights))
    module.load_state_dict(weights)


def compare(part: str, expected: Mapping[str, Shape], found: Mapping[str, Shape]) -> None:
    """Refuse weights that are not those of a part of a model.

    `part`: what they are, in a message. `found`: the same, of the checkpoint.

    Raises:
        WeightsUnusableError: a weight is missing, left over, or has another shape.
    """
    _refuse(
        part,
        expected.keys() - found.keys(),
        found.keys() - expected.keys(),
        {
            name: (shape, found[name])
            for name, shape in expected.items()
            if name in found and tuple(shape) != tuple(found[name])
        },
    )


def shapes_of(weights: Mapping[str, torch.Tensor]) -> dict[str, Shape]:
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def _refuse(
    part: str,
    missing: "Sequence[str] | set[str]",
    left_over: "Sequence[str] | set[str]",
    reshaped: Mapping[str, tuple[Shape, Shape]],
) -> None:
    problems = list(_problems(missing, left_over, reshaped))
    if problems:
        raise WeightsUnusableError(
            f"The weights of the checkpoint are not those of {part}: {'; '.join(problems)}. "
            "Correct the checkpoint: copy all of its files again, or save the complete model again."
        )


def _problems(
    missing: "Sequence[str] | set[str]",
    left_over: "Sequence[str] | set[str]",
    reshaped: Mapping[str, tuple[Shape, Shape]],
) -> Iterator[str]:
    shaped = [
        f"{name} has the shape {list(found)}, expected {list(expected)}"
        for name, (expected, found) in sorted(reshaped.items())
    ]
    if shaped:
        yield f"{len(shaped)} of another shape ({_first(shaped)})"
    if missing:
        yield f"{len(missing)} missing ({_first(sorted(missing))})"
    if left_over:
        yield f"{len(left_over)} left over ({_first(sorted(left_over))})"


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if names[NAMED:] else "")
