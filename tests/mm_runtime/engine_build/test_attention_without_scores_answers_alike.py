"""Vision halves whose images keep their shape: as programs for torch they store no scores."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mm_runtime.engine_build.commands.towers import load_tower
from mm_runtime.engine_build.commands.towers.attention import Attention
from mm_runtime.engine_build.commands.towers.fusing import fuse
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.families.images import write


@pytest.mark.parametrize("family", ["qwen2-5-vl", pytest.param("qwen2-vl", marks=pytest.mark.slow)])
def test_one_operation_equals_the_class(family: str, tmp_path: Path) -> None:
    """With windows and without, for every sample; each attention is changed."""
    folder = write(family, tmp_path / family)
    tower = load_tower(folder, inspect(folder, InspectOptions()), trust_remote_code=False)
    attentions = [one for one in tower.module.modules() if isinstance(one, Attention)]

    fuse(tower.module)

    assert [one.is_one_operation for one in attentions] == [True]
    for sample in tower.samples:
        with torch.inference_mode():
            wanted = tower.reference(sample).numpy()
            found = tower.module(*tower.torch_inputs(sample)).numpy()
        assert np.abs(found - wanted).max() < 1e-4
