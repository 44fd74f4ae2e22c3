"""Between the first steps of the gateway's ensembles are bytes of images; clients' have values."""

from pathlib import PurePath

import pytest

from mm_runtime.repository.configs import (
    ensemble,
    multimodal_encoders,
    preprocessing,
    scored_ensemble,
    tensorrt_llm,
    token_ensemble,
    vision_encoder,
)
from mm_runtime.repository.model_config import ModelConfig
from mm_runtime.repository.values import RepositoryValues, values_of
from support.build_plans import serving_plan
from support.cases import cases
from support.documents import FACTS, manifest
from support.native_engines import native_engine

IDS = ("OUT_PROMPT_TABLE_EXTRA_IDS", "prompt_table_extra_ids")
PATHS = (PurePath("/engine"), PurePath("/serving.json"), PurePath("/adapters"))


def values(reuse_bytes: int | None = None) -> RepositoryValues:
    engine = manifest()
    plan = serving_plan(engine.fingerprint, reuse_bytes=reuse_bytes)
    return values_of(engine, plan, *PATHS)


def native(family: str) -> RepositoryValues:
    engine, serving = native_engine(family, {})
    return values_of(engine, serving, *PATHS)


def steps(config: ModelConfig) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Return model -> what it reads and what it makes, of an ensemble's steps."""
    return {
        one.model_name: (dict(one.input_map), dict(one.output_map))
        for one in config.ensemble_scheduling.step
    }


@pytest.mark.parametrize("module", [token_ensemble, scored_ensemble], ids=lambda one: one.NAME)
def test_the_gateways_have_bytes(module: object) -> None:
    """And no values beside them, which nothing would read."""
    for found in (values(), native("llava")):
        by_model = steps(module.config(found))  # type: ignore[attr-defined]
        made, read = by_model[preprocessing.NAME][1], by_model[multimodal_encoders.NAME][0]

        assert made["PIXEL_BYTES"] == read["pixel_bytes"]
        assert "PIXEL_VALUES" not in made
        assert "pixel_values" not in read


def test_clients_have_values() -> None:
    """The ensemble that they send to has upstream's tensors alone."""
    by_model = steps(ensemble.config(values()))

    assert "PIXEL_BYTES" not in by_model[preprocessing.NAME][1]
    assert by_model[preprocessing.NAME][1]["PIXEL_VALUES"] == "_PIXEL_VALUES"
    assert by_model[multimodal_encoders.NAME][0]["pixel_values"] == "_PIXEL_VALUES"


def test_images_that_are_cut_up_stay_values() -> None:
    found = native("qwen2-vl")
    by_model = steps(token_ensemble.config(found))

    assert by_model[preprocessing.NAME][1]["PIXEL_VALUES"] == "_PIXEL_VALUES"
    for module in (preprocessing, multimodal_encoders):
        config = module.config(found)
        names = {one.name.lower() for one in (*config.input, *config.output)}
        assert "pixel_bytes" not in names


def test_encoders_of_other_pods_take_both() -> None:
    """Values of older servers, bytes of others; where images are cut up, values alone."""
    assert FACTS.family == "llava"
    names = {one.name for one in vision_encoder.config(values()).input}
    assert {"pixel_values", "pixel_bytes"} <= names

    others = {one.name for one in vision_encoder.config(native("qwen2-vl")).input}
    assert "pixel_values" in others
    assert "pixel_bytes" not in others


@cases(
    "found expected",
    {
        "nothing-is-kept": (values(), False),
        "prompts-are-kept": (values(reuse_bytes=1 << 20), True),
        "TensorRT": (native("llava"), True),
    },
)
def test_images_have_ids_where_prompts_are_kept(found: RepositoryValues, *, expected: bool) -> None:
    """Nothing else reads them, and each costs a digest of all pixels."""
    by_model = steps(token_ensemble.config(found))
    made, read = IDS

    assert (made in by_model[preprocessing.NAME][1]) is expected
    assert (read in by_model[tensorrt_llm.NAME][0]) is expected
    assert made in steps(ensemble.config(found))[preprocessing.NAME][1]
