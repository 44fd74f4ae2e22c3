"""InternVL in OpenGVLab's layout: facts and plan of transformers', damaged ones by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mm_runtime.engine_build.commands.verify_weights import refuse_other_class
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.cases import cases
from support.model_configs import planned, reference_plan
from support.opengvlab import write_both

CONV = "vision_model.embeddings.patch_embedding.weight"
QKV = "vision_model.encoder.layers.1.attn.qkv.weight"
HEAD = "language_model.lm_head.weight"


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One model in both layouts."""
    return write_both(tmp_path_factory.mktemp("layouts"))


def test_facts_are_those_of_the_other_layout(layouts: tuple[Path, Path]) -> None:
    """All but the files' own: which class they name, their digest, headers with other names."""
    classes, own = (inspect(one, InspectOptions()) for one in layouts)
    files = {"architecture", "source_digest", "weight_bytes"}

    assert own.model_dump(exclude=files) == classes.model_dump(exclude=files)
    assert not own.custom_code


def test_plans_are_equal(layouts: tuple[Path, Path]) -> None:
    """Weights, features and limits, for one size of the files."""
    classes, own = (inspect(one, InspectOptions()) for one in layouts)
    own = own.model_copy(
        update={"weight_bytes": classes.weight_bytes, "source_digest": classes.source_digest}
    )
    changes = {"engine": {"backend": "Reference"}}
    plans = [reference_plan(one, changes).model_dump(mode="json") for one in (classes, own)]

    assert not plans[0]["errors"]
    assert json.dumps(plans[0]).replace(classes.architecture, "") == json.dumps(plans[1]).replace(
        own.architecture, ""
    )


def test_pytorch_is_refused(layouts: tuple[Path, Path]) -> None:
    """trtllm-serve has no class of either layout."""
    facts = inspect(layouts[1], InspectOptions())

    errors = planned("internvl", {"backend": "PyTorch"}, facts=facts, model={}).errors

    assert [one.code for one in errors] == ["BackendFamily"]


def _without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda weights: {key: value for key, value in weights.items() if key != name}


def _reshaped(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda weights: weights | {name: weights[name][:-1].clone()}


@cases(
    "damage words",
    {
        "missing-tower": (_without(QKV), ["3 missing", "layer.1.attention"]),
        "missing-projector": (_without("mlp1.3.bias"), ["linear_2.bias"]),
        "missing-head": (_without(HEAD), ["1 missing", "lm_head.weight"]),
        "shape-of-qkv": (_reshaped(QKV), ["layer.1.attention", "has the shape"]),
        "shape-of-patches": (_reshaped(CONV), ["patch_embeddings", "has the shape"]),
    },
)
def test_damaged_weights_are_refused(
    layouts: tuple[Path, Path], tmp_path: Path, damage: Callable[..., Any], words: list[str]
) -> None:
    """By the class, before a build: transformers would fill them with random numbers."""
    from safetensors.torch import load_file, save_file  # noqa: PLC0415 (as below)

    folder = shutil.copytree(layouts[1], tmp_path / "damaged")
    weights = load_file(folder / "model.safetensors")
    save_file(damage(weights), folder / "model.safetensors")

    with pytest.raises(InspectRefusedError) as refused:
        refuse_other_class(inspect(folder, InspectOptions()), folder)

    assert [one for one in words if one not in str(refused.value)] == []


def test_internlm2_is_refused(layouts: tuple[Path, Path], tmp_path: Path) -> None:
    """By name, with the nearest that is served."""
    folder = shutil.copytree(layouts[1], tmp_path / "internlm2")
    config = json.loads((folder / "config.json").read_text())
    config["llm_config"]["model_type"] = "internlm2"
    (folder / "config.json").write_text(json.dumps(config))

    with pytest.raises(InspectRefusedError, match=r"no class of InternLM2.*Nearest: an InternVL3"):
        inspect(folder, InspectOptions())
