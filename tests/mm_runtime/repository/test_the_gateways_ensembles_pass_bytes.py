"""Ensembles pass images as bytes, and features on the GPU."""

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import pytest

from mm_runtime.repository.configs import (
    ensemble,
    multimodal_encoders,
    preprocessing,
    scored_ensemble,
    tensorrt_llm,
    tensorrt_llm_bls,
    token_ensemble,
    vision_encoder,
)
from mm_runtime.repository.model_config import ModelConfig
from mm_runtime.repository.values import RepositoryValues, values_of
from mm_runtime.serving.encode.gpu_features import are_gpu_tensors
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
    return {
        one.model_name: (dict(one.input_map), dict(one.output_map))
        for one in config.ensemble_scheduling.step
    }


@pytest.mark.parametrize("module", [token_ensemble, scored_ensemble], ids=lambda one: one.NAME)
def test_the_gateways_have_bytes(module: object) -> None:
    for found in (values(), native("llava")):
        by_model = steps(module.config(found))  # type: ignore[attr-defined]
        made, read = by_model[preprocessing.NAME][1], by_model[multimodal_encoders.NAME][0]

        assert made["PIXEL_BYTES"] == read["pixel_bytes"]
        assert "PIXEL_VALUES" not in made
        assert "pixel_values" not in read


def test_clients_have_values() -> None:
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


NO_PINNED_POOL = {"runtime": {"memoryPools": {"pinned": "0"}, "blsInstances": 1}}
PINNED_POOL = {"runtime": {"memoryPools": {"pinned": "256Mi"}, "blsInstances": 1}}
TWO_GPUS = {"runtime": {"gpu": {"count": 2}}, "engine": {"parallelism": {"tensor": 2}}}


def features_values(spec: Mapping[str, Any]) -> RepositoryValues:
    engine, serving = native_engine("llava", **spec)
    return values_of(engine, serving, *PATHS)


@cases(
    "version spec expected",
    {
        "as-planned": ("0.20.0", {}, True),
        "newer": ("1.2.1", {}, True),
        "pinned-pool": ("0.20.0", PINNED_POOL, False),
        "older": ("0.19.0", {}, False),
        "older-without-a-pinned-pool": ("0.19.0", NO_PINNED_POOL, False),
        "two-ranks": ("0.20.0", TWO_GPUS, False),
    },
)
def test_gpu_tensors_are_for_backends_that_read_them(
    version: str, spec: Mapping[str, Any], *, expected: bool
) -> None:
    """And for servers in which a full pool cannot give out what was never copied.

    A CUDA pool above Triton's own 64 MiB is planned where features travel in it, and only there.
    """
    engine, serving = native_engine("llava", version=version, **spec)

    assert are_gpu_tensors(engine, serving) is expected
    assert (serving.pools.cuda_bytes > 64 << 20) is expected
    assert expected <= (serving.pools.pinned_bytes == 0)


@pytest.mark.parametrize(
    "module", [tensorrt_llm, ensemble, token_ensemble], ids=lambda one: one.NAME
)
def test_the_backend_is_configured_as_ever(module: Any) -> None:
    """It has no input that announces GPU tensors, and needs no parameter to get them."""
    assert str(module.config(features_values(NO_PINNED_POOL))) == str(
        module.config(features_values(PINNED_POOL))
    )


def test_the_chain_gets_features_in_host_memory() -> None:
    """GPU tensors for a caller that wants host memory crash the process that sends them."""
    found = features_values(NO_PINNED_POOL)
    encoder = multimodal_encoders.config(found)
    written = tensorrt_llm_bls.config(found).parameters["steps"].string_value
    steps = {name: inputs for name, inputs, _ in json.loads(written)}

    assert steps[multimodal_encoders.NAME]["host_features"] == "host_features"
    assert "host_features" not in steps[tensorrt_llm.NAME]
    assert "host_features" in {one.name for one in encoder.input}
    assert "FEATURES_ON_GPU" not in {one.name for one in encoder.output}
