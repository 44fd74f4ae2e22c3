"""The vision half of every family: torch to ONNX, equal to the checkpoint's own class."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from mm_api.families.detection import detect
from mm_runtime.engine_build.commands.towers import WITH_TOWERS, load_tower
from mm_runtime.engine_build.commands.towers.tower import Tower
from mm_runtime.engine_build.commands.vision_samples import FEATURES
from support.families.shared import shared_family
from support.representatives import others_are_slow

FAMILIES_OF_TOWERS = others_are_slow(
    sorted(WITH_TOWERS), "blip2-opt", "llava", "mllama", "qwen2-5-vl"
)
"""Builds of the others export and verify theirs in tests of their answers."""

EXACT = 1e-4
"""Largest difference allowed in float32."""


def facts_of(folder: Path) -> ModelFacts:
    """Return what config.json says; the weights' part is made up."""
    config = json.loads((folder / "config.json").read_text())
    processor = folder / "preprocessor_config.json"
    family = detect(config)
    assert family is not None
    found = FAMILIES[family].read(
        config, json.loads(processor.read_text()) if processor.is_file() else {}
    )
    return ModelFacts(
        family=family,
        architecture=config["architectures"][0],
        dtype="float32",
        source_digest="sha256:" + "0" * 64,
        weight_format="safetensors",
        weight_bytes=1,
        parameters=1,
        custom_code=False,
        image_token_id=found.image_token_id,
        text=found.text,
        vision=found.vision,
    )


@pytest.fixture(scope="module", params=FAMILIES_OF_TOWERS)
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tower, onnxruntime.InferenceSession]:
    shared = shared_family(tmp_path_factory, request.param)
    facts = facts_of(shared.checkpoint)
    tower = load_tower(shared.checkpoint, facts, trust_remote_code=False)
    path = shared.engine.vision_folder / "model.onnx"
    return tower, onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_every_sample_equals_torch(exported: tuple[Tower, onnxruntime.InferenceSession]) -> None:
    tower, session = exported
    assert len({sample["pixel_values"].shape for sample in tower.samples}) > 1
    for sample in tower.samples:
        with torch.inference_mode():
            wanted = tower.reference(sample).numpy()
        found = session.run([FEATURES], sample)[0]
        assert wanted.shape == found.shape
        assert wanted.std() > 10 * EXACT  # far from all alike: the comparison means something
        assert np.abs(found - wanted).max() < EXACT


def test_scatters_are_read_by_tensorrt(
    exported: tuple[Tower, onnxruntime.InferenceSession],
) -> None:
    """TensorRT 10.6 refuses MLLAMA's mask where its ScatterND names the default reduction."""
    tower, session = exported
    model = onnx.load(session._model_path, load_external_data=False)
    scatters = [node for node in model.graph.node if node.op_type == "ScatterND"]
    assert scatters or type(tower.module).__name__ != "MllamaVision"
    assert [one.attribute for one in scatters if one.attribute] == []


def test_entries_of_a_batch_do_not_mix(
    exported: tuple[Tower, onnxruntime.InferenceSession],
) -> None:
    tower, session = exported
    sample = tower.samples[0]
    together = session.run([FEATURES], sample)[0]
    last = {name: values[-1:] for name, values in sample.items()}
    alone = session.run([FEATURES], last)[0]
    np.testing.assert_allclose(together[-1:], alone, atol=1e-5)
    assert np.abs(together[0] - together[-1]).max() > EXACT
