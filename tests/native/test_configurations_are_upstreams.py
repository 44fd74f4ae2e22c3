"""What is written for TensorRT-LLM's backend is what upstream's template of the version has.

The checks are those of the stand-in that tritonserver loads; here they run without a server, for
every family, and each of them is seen to refuse.
"""

import json
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]  # no stubs
from tritonclient.grpc import model_config_pb2

from mm_api.documents.trtllm_build import TrtllmBuild
from mm_runtime.repository.layout import MODEL_NAMES, layout
from support.cases import cases
from support.model_configs import ENCODER_DECODERS, ON_TRITON, VERSIONS, versions_of
from support.native.backend.checks import RefusedError, RequestChecks, check_config
from support.native.templates import template
from support.native_engines import native_engine

NEWEST = VERSIONS[-1]
BUILT = {"max_input_len": 8, "max_seq_len": 9}
SOURCES = dict.fromkeys(MODEL_NAMES, "")


def written(
    family: str, version: str, *, reuse: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the configuration of `tensorrt_llm` as Triton hands it over, and its engine's."""
    manifest, serving = native_engine(family, version=version)
    assert serving.kv_cache is not None
    cache = serving.kv_cache.model_copy(update={"reuse": reuse or None})
    serving = serving.model_copy(update={"kv_cache": cache})
    paths = {name: PurePath("/x") for name in ("engine_dir", "serving_plan", "adapters")}
    files = layout(manifest, serving, sources=SOURCES, **paths)
    parsed = text_format.Parse(files["tensorrt_llm/config.pbtxt"], model_config_pb2.ModelConfig())
    config = json.loads(json_format.MessageToJson(parsed, preserving_proto_field_name=True))
    config["parameters"] = {
        name: {"string_value": one.get("string_value", "")}
        for name, one in config["parameters"].items()
    }
    assert isinstance(manifest.plan.trtllm, TrtllmBuild)
    kind = "DecoderModel" if family in ENCODER_DECODERS else "LlamaForCausalLM"
    kind = "MLLaMAForCausalLM" if family == "mllama" else kind
    pretrained = {"architecture": kind, "dtype": manifest.plan.engine.dtype}
    beams = manifest.plan.engine.limits.max_beam_width
    return config, {"pretrained_config": pretrained, "build_config": {"max_beam_width": beams}}


@pytest.mark.parametrize(
    ("family", "version"),
    [(family, one) for family in ON_TRITON for one in (versions_of(family)[0], NEWEST)],
)
def test_every_family(family: str, version: str) -> None:
    """Names, types and shapes of each tensor, and every parameter, oldest and newest version."""
    config, engine = written(family, version)
    check_config(config, template(version), engine)


def test_what_is_reused_is_read_from_pages() -> None:
    """A server that keeps blocks takes engines that were built for it only."""
    config, engine = written("llava", NEWEST, reuse=True)
    with pytest.raises(RefusedError, match="paged context FMHA"):
        check_config(config, template(NEWEST), engine)
    engine["build_config"]["plugin_config"] = {"use_paged_context_fmha": "enable"}
    check_config(config, template(NEWEST), engine)


def test_features_of_kept_blocks_belong_to_images() -> None:
    """Blocks of two images would be taken for equal without ids, of which each token has one."""
    pretrained = {"architecture": "L", "vocab_size": 9, "hidden_size": 2}
    build = {**BUILT, "max_prompt_embedding_table_size": 4, "max_batch_size": 1}
    inputs = {
        "input_ids": np.array([[1, 9]], dtype=np.int32),
        "request_output_len": np.array([[1]], dtype=np.int32),
        "prompt_embedding_table": np.zeros((1, 1, 2), np.float16),
    }
    checks = RequestChecks(
        {"pretrained_config": pretrained, "build_config": build}, rotations=0, reuses=True
    )
    with pytest.raises(RefusedError, match="extra ids must be provided"):
        checks.check(inputs)
    with pytest.raises(RefusedError, match="must be the same"):
        checks.check({**inputs, "prompt_table_extra_ids": np.array([[7]], np.uint64)})
    checks.check({**inputs, "prompt_table_extra_ids": np.array([[0, 7]], np.uint64)})


def _rename(config: dict[str, Any]) -> None:
    next(one for one in config["input"] if one["name"] == "seed")["name"] = "random_seed"


def _retype(config: dict[str, Any]) -> None:
    table = next(one for one in config["input"] if one["name"] == "prompt_embedding_table")
    table["data_type"] = "TYPE_FP32"


def _add_output(config: dict[str, Any]) -> None:
    config["output"].append({"name": "is_last", "data_type": "TYPE_BOOL", "dims": ["1"]})


def _forget(config: dict[str, Any]) -> None:
    del config["parameters"]["lora_prefetch_dir"]


def _invent(config: dict[str, Any]) -> None:
    config["parameters"]["max_queue_size"] = {"string_value": "1"}


def _couple(config: dict[str, Any]) -> None:
    config["model_transaction_policy"] = {}


@cases(
    "change words",
    {
        "older-name": (_rename, "no input random_seed"),
        "type": (_retype, "input prompt_embedding_table is"),
        "own-output": (_add_output, "no output is_last"),
        "parameter-left-out": (_forget, "lora_prefetch_dir"),
        "parameter-invented": (_invent, "max_queue_size"),
        "not-decoupled": (_couple, "decoupled"),
    },
)
def test_anything_else_is_refused(change: Callable[[dict[str, Any]], None], words: str) -> None:
    """A configuration that upstream's template cannot give is refused by name."""
    config, engine = written("llava", NEWEST)
    change(config)
    with pytest.raises(RefusedError, match=words):
        check_config(config, template(NEWEST), engine)
