"""Programs for a GPU: attention and activation in one operation each, and all in float16."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mm_runtime.engine_build.commands.export_vision import write_program
from mm_runtime.engine_build.commands.towers import load_tower
from mm_runtime.engine_build.commands.towers.attention import Attention
from mm_runtime.engine_build.commands.towers.fusing import fuse
from mm_runtime.engine_build.commands.towers.tower import Tower
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.serving.encode.vision.torch_runner import TorchRunner, half_program
from support.families.images import CASES, write
from support.representatives import others_are_slow

FAMILIES = sorted({*CASES} - {"mllama"})
"""That stores its scores."""


@pytest.fixture(scope="module", params=others_are_slow(FAMILIES, "llava", "llava-next"))
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tower, list[np.ndarray], Path]:
    folder = write(request.param, tmp_path_factory.mktemp("family") / request.param)
    tower = load_tower(folder, inspect(folder, InspectOptions()), trust_remote_code=False)
    with torch.inference_mode():
        answers = [tower.reference(sample).numpy() for sample in tower.samples]
    fuse(tower.module)
    write_program(tower, folder / "model.pt2")
    return tower, answers, folder / "model.pt2"


def test_a_fused_half_answers_as_the_class(exported: tuple[Tower, list[np.ndarray], Path]) -> None:
    tower, answers, model = exported
    runner = TorchRunner(model)
    for sample, answer in zip(tower.samples, answers, strict=True):
        assert np.abs(runner(sample) - answer).max() < 1e-4

    called = {str(node.target) for node in torch.export.load(model).graph.nodes}
    assert "aten.scaled_dot_product_attention.default" in called
    assert "aten.sigmoid.default" not in called


def test_in_float16_it_differs_little(exported: tuple[Tower, list[np.ndarray], Path]) -> None:
    tower, answers, model = exported
    if len(tower.inputs) > 1:
        return  # torch computes it in float32
    module = half_program(torch.export.load(model))
    pixels = torch.from_numpy(tower.samples[0]["pixel_values"])

    with torch.inference_mode():
        found = module(pixel_values=pixels.half())

    wanted = torch.from_numpy(answers[0])
    assert found.dtype == torch.float16
    assert float((found.float() - wanted).norm() / wanted.norm()) < 5e-3


@pytest.mark.parametrize("family", ["qwen2-5-vl", pytest.param("qwen2-vl", marks=pytest.mark.slow)])
def test_one_operation_equals_the_class(family: str, tmp_path: Path) -> None:
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
