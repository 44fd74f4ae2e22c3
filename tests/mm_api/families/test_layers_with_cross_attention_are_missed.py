"""Weights of a model with cross attention whose layers are all alike are another checkpoint's."""

import json
from pathlib import Path

import pytest

from mm_api.checkpoint import CheckpointError
from mm_api.families import FAMILIES
from mm_api.families.stored_weights import check_stored
from support.hollow_checkpoint import described
from support.model_configs import MODELS


def test_layers_that_are_all_alike(tmp_path: Path) -> None:
    """Llama 3.2 Vision has eight layers of another kind; without their gates none is."""
    MODELS["mllama"].write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    family = FAMILIES["mllama"]
    dimensions = family.read(config, {})
    entries = {
        name: {"dtype": dtype, "shape": list(shape)}
        for name, (dtype, shape) in described(dimensions).items()
    }
    check_stored(entries, config, family, dimensions)

    plain = {name: entry for name, entry in entries.items() if "cross_attn" not in name}
    with pytest.raises(CheckpointError, match="8 of 40 have cross attention"):
        check_stored(plain, config, family, dimensions)
