"""Where the Reference engine computes on a GPU, features pass between models as GPU tensors."""

import json
from pathlib import PurePath
from typing import Any

from tritonclient.grpc.model_config_pb2 import DataType as TypeNames

from mm_api.documents.serving_plan import GpuSharing
from mm_runtime.repository.configs import (
    ensemble,
    multimodal_encoders,
    preprocessing,
    tensorrt_llm,
    tensorrt_llm_bls,
    vision_encoder,
)
from mm_runtime.repository.model_config import ModelConfig
from mm_runtime.repository.values import RepositoryValues, values_of
from support.build_plans import serving_plan
from support.cases import cases
from support.documents import manifest

FORCE_CPU = "FORCE_CPU_ONLY_INPUT_TENSORS"
HOST = "host_features"
TABLE, MADE, HANDED = "OUT_PROMPT_EMBEDDING_TABLE", "FEATURES_ON_GPU", "features_on_gpu"


def values(
    device: str = "CUDA", dtype: str = "bfloat16", vision: str = "ONNXRuntime", **serving: Any
) -> RepositoryValues:
    engine = manifest(dtype=dtype)
    planned = engine.plan.engine
    encoder = planned.vision.model_copy(update={"engine": vision}) if planned.vision else None
    planned = planned.model_copy(update={"vision": encoder})
    engine = engine.model_copy(update={"plan": engine.plan.model_copy(update={"engine": planned})})
    plan = serving_plan(engine.fingerprint, device=device, bls_instances=1, **serving)
    return values_of(
        engine, plan, PurePath("/engine"), PurePath("/serving.json"), PurePath("/adapters")
    )


def type_of(config: ModelConfig, name: str) -> str:
    found = {one.name: one.data_type for one in (*config.input, *config.output)}
    return str(TypeNames.Name(found[name]))


@cases("device expected", {"arrays": ("CPU", "TYPE_FP32"), "tensors": ("CUDA", "TYPE_BF16")})
def test_bfloat16_stays_bfloat16_on_a_gpu(device: str, expected: str) -> None:
    found = values(device)

    assert type_of(multimodal_encoders.config(found), TABLE) == expected
    assert type_of(tensorrt_llm.config(found), "prompt_embedding_table") == expected


@cases(
    "device vision expected",
    {
        "torch": ("CUDA", "Torch", "TYPE_BF16"),
        "onnx": ("CUDA", "ONNXRuntime", "TYPE_FP32"),
        "processor": ("CPU", "Torch", "TYPE_FP32"),
    },
)
def test_encoders_in_other_pods_send_the_engines_type(
    device: str, vision: str, expected: str
) -> None:
    """Half the bytes cross the network where torch, which makes them, is in the encoder's pod."""
    found = vision_encoder.config(values(device, vision=vision))

    assert type_of(found, TABLE) == expected


def test_only_the_language_model_takes_gpu_tensors() -> None:
    found = values()
    taking = [
        module.NAME
        for module in (preprocessing, multimodal_encoders, tensorrt_llm, tensorrt_llm_bls)
        if module.config(found).parameters.get(FORCE_CPU) is not None
        and module.config(found).parameters[FORCE_CPU].string_value == "no"
    ]

    assert taking == [tensorrt_llm.NAME]


def test_the_language_model_learns_where_features_were() -> None:
    steps = {step.model_name: step for step in ensemble.config(values()).ensemble_scheduling.step}

    made = steps[multimodal_encoders.NAME].output_map[MADE]
    assert steps[tensorrt_llm.NAME].input_map[HANDED] == made


def test_the_chain_passes_features_in_host_memory() -> None:
    """`tensorrt_llm_bls` requests them there, so nothing claims that they are on the GPU."""
    written = tensorrt_llm_bls.config(values()).parameters["steps"].string_value

    assert MADE not in written
    assert HANDED not in written
    steps = {name: inputs for name, inputs, _ in json.loads(written)}
    assert steps[multimodal_encoders.NAME][HOST] == HOST
    assert HOST in {one.name for one in multimodal_encoders.config(values()).input}


def test_on_the_processor_nothing_is_added() -> None:
    found = values("CPU")
    texts = [str(module.config(found)) for module in (multimodal_encoders, tensorrt_llm, ensemble)]

    added = (MADE, HANDED, FORCE_CPU, HOST)
    assert not any(one in text for text in texts for one in added)


def test_the_encoder_gets_its_share_of_the_gpu() -> None:
    """Under MPS: percent of the GPU's threads, read by its process before it uses CUDA."""
    shared = values(sharing=GpuSharing(mode="MPS", thread_percentage=30))

    parameters = multimodal_encoders.config(shared).parameters
    assert parameters["mps_thread_percentage"].string_value == "30"
