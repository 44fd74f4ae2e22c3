"""Where TensorRT-LLM's backend reads GPU tensors, features are such; else in host memory."""

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import pytest

from mm_runtime.repository.configs import (
    ensemble,
    multimodal_encoders,
    tensorrt_llm,
    tensorrt_llm_bls,
    token_ensemble,
)
from mm_runtime.repository.values import RepositoryValues, values_of
from mm_runtime.serving.encode.gpu_features import are_gpu_tensors
from support.cases import cases
from support.native_engines import native_engine

NO_PINNED_POOL = {"runtime": {"memoryPools": {"pinned": "0"}, "blsInstances": 1}}
PINNED_POOL = {"runtime": {"memoryPools": {"pinned": "256Mi"}, "blsInstances": 1}}
TWO_GPUS = {"runtime": {"gpu": {"count": 2}}, "engine": {"parallelism": {"tensor": 2}}}
PATHS = (PurePath("/engine"), PurePath("/serving.json"), PurePath("/adapters"))


def values(spec: Mapping[str, Any]) -> RepositoryValues:
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
    assert str(module.config(values(NO_PINNED_POOL))) == str(module.config(values(PINNED_POOL)))


def test_the_chain_gets_features_in_host_memory() -> None:
    """GPU tensors for a caller that wants host memory crash the process that sends them."""
    found = values(NO_PINNED_POOL)
    encoder = multimodal_encoders.config(found)
    written = tensorrt_llm_bls.config(found).parameters["steps"].string_value
    steps = {name: inputs for name, inputs, _ in json.loads(written)}

    assert steps[multimodal_encoders.NAME]["host_features"] == "host_features"
    assert "host_features" not in steps[tensorrt_llm.NAME]
    assert "host_features" in {one.name for one in encoder.input}
    assert "FEATURES_ON_GPU" not in {one.name for one in encoder.output}
