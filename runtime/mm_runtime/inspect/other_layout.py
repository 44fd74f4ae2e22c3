"""Weights of a checkpoint in another layout that no class of transformers has."""

from pathlib import Path

from mm_api.documents.model_facts import InspectReason
from mm_api.families.layouts import Shapes
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.weights import SHOWN, Weights, read_headers


def check_shapes(source: Path, stored: Weights, expected: Shapes) -> None:
    """Refuse a checkpoint that lacks weights, or has them in other shapes.

    `stored`: its weights; of pickles nothing is known but their size. `expected`: name and shape of
    every weight.

    Raises:
        InspectRefusedError: `WeightsInvalid`.
    """
    if stored.format != "safetensors":
        raise _refusal(
            "this layout is read from safetensors only, and the weights are pickles: save them as"
            " safetensors"
        )
    headers = read_headers(source, stored.files)
    found = {name: tuple(entry["shape"]) for name, entry in headers.items()}
    missing = [name for name in expected if name not in found]
    if missing:
        more = " ..." if missing[SHOWN:] else ""
        raise _refusal(
            f"{len(missing)} of {len(expected)} weights that config.json describes are missing:"
            f" {', '.join(missing[:SHOWN])}{more}. Download the checkpoint again"
        )
    for name, shape in expected.items():
        if found[name] != shape:
            raise _refusal(
                f"weight {name} has the shape {list(found[name])}, and config.json describes"
                f" {list(shape)}: weights and config.json are of different checkpoints"
            )


def _refusal(message: str) -> InspectRefusedError:
    return InspectRefusedError(InspectReason.WEIGHTS_INVALID, f"{message}.")
