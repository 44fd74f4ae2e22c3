"""Repositories of TensorRT-LLM engines: its own backend, reported everything, for each family."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest
from google.protobuf import text_format  # type: ignore[import-untyped]  # no stubs
from tritonclient.grpc import model_config_pb2

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.errors import PermanentError
from mm_runtime.repository.layout import MODEL_NAMES, layout
from support.cases import cases
from support.golden import Golden
from support.model_configs import ON_TRITON
from support.native.templates import PARAMETERS
from support.native_engines import native_engine

SOURCES = {name: f"# {name}\n" for name in MODEL_NAMES}


def files(family: str, engine: dict[str, Any] | None = None, **options: Any) -> dict[str, str]:
    return laid(*native_engine(family, engine, **options))


def laid(manifest: EngineManifest, serving: ServingPlan) -> dict[str, str]:
    return layout(
        manifest,
        serving,
        engine_dir=PurePath("/engine"),
        serving_plan=PurePath("/etc/multimodal/serving.json"),
        adapters=PurePath("/adapters"),
        sources=SOURCES,
    )


def parse(text: str) -> Any:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def configs(found: dict[str, str]) -> dict[str, Any]:
    return {
        path.split("/")[0]: parse(text)
        for path, text in found.items()
        if path.endswith("config.pbtxt")
    }


def parameters(found: dict[str, str], model: str = "tensorrt_llm") -> dict[str, str]:
    held = configs(found)[model].parameters
    return {name: held[name].string_value for name in held}


def table_types(found: dict[str, str]) -> dict[str, str]:
    wanted = {"prompt_embedding_table", "OUT_PROMPT_EMBEDDING_TABLE", "encoder_input_features"}
    wanted |= {"ENCODER_INPUT_FEATURES"}
    return {
        f"{model}.{tensor.name}": model_config_pb2.DataType.Name(tensor.data_type)
        for model, config in configs(found).items()
        for tensor in (*config.input, *config.output)
        if tensor.name in wanted
    }


def summary(found: dict[str, str]) -> Iterator[str]:
    yield from sorted(found)
    for step in configs(found)["ensemble"].ensemble_scheduling.step:
        yield f"step {step.model_name}"
    yield from sorted(f"{name} {kind}" for name, kind in table_types(found).items())
    for name, value in sorted(parameters(found).items()):
        yield f'{name} = "{value}"'


@pytest.mark.parametrize("family", ON_TRITON)
def test_repositories_are_golden(golden: Golden, family: str) -> None:
    golden.check(
        f"tensorrt-llm/{family}.txt", "".join(f"{line}\n" for line in summary(files(family)))
    )


@pytest.mark.parametrize("family", ON_TRITON)
def test_nothing_is_left_to_fill_in(family: str) -> None:
    found = files(family)
    assert [path for path, text in found.items() if "${" in text] == []
    assert set(PARAMETERS.split()) == set(parameters(found))
    config = configs(found)["tensorrt_llm"]
    assert (config.backend, config.model_transaction_policy.decoupled) == ("tensorrtllm", True)
    assert "tensorrt_llm/1/.keep" in found
    assert "tensorrt_llm/1/model.py" not in found


@pytest.mark.parametrize("family", ON_TRITON)
@pytest.mark.parametrize("name", ["ensemble", "token_ensemble", "scored_ensemble"])
def test_steps_connect_what_the_models_have(family: str, name: str) -> None:
    found = configs(files(family))
    made = {one.name: one.data_type for one in found[name].input}
    for step in found[name].ensemble_scheduling.step:
        inputs = {one.name: one.data_type for one in found[step.model_name].input}
        outputs = {one.name: one.data_type for one in found[step.model_name].output}
        read = {name: made[source] for name, source in step.input_map.items()}
        assert read == {name: inputs[name] for name in step.input_map}
        made |= {target: outputs[name] for name, target in step.output_map.items()}
    assert {one.name for one in found[name].output} <= set(made)


def test_the_plans_numbers_arrive() -> None:
    """KV fraction, beams and queue are the plan's; the queue is what waits, without the batch."""
    manifest, serving = native_engine("t5", {"maxBeamWidth": 4})
    reported = parameters(files("t5", {"maxBeamWidth": 4}))
    assert serving.kv_cache
    assert (
        str(serving.kv_cache.free_gpu_memory_fraction) == reported["kv_cache_free_gpu_mem_fraction"]
    )
    assert (reported["max_beam_width"], reported["decoding_mode"]) == ("4", "beam_search")
    assert str(manifest.plan.engine.limits.max_seq_len) == reported["max_attention_window_size"]
    config = configs(files("t5"))["tensorrt_llm"]
    held = config.dynamic_batching.default_queue_policy.max_queue_size
    assert serving.max_queue_size == held
    reuse, chunked = {"kvCache": {"reuse": True}}, {"triton": {"enableChunkedContext": True}}
    in_parts = parameters(files("llava", reuse, runtime=chunked))["enable_chunked_context"]
    assert (reported["enable_chunked_context"], in_parts) == ("false", "true")


@pytest.mark.parametrize(("adapters", "expected"), [(0, ""), (1, "/adapters")])
def test_adapters_are_fetched_at_the_start(adapters: int, expected: str) -> None:
    manifest, serving = native_engine("llava")
    assert manifest.plan.trtllm
    lora = [LoraAdapter(name=f"a{i}", uid=i, source="/a") for i in range(adapters)]
    trtllm = manifest.plan.trtllm.model_copy(update={"lora": lora})
    plan = manifest.plan.model_copy(update={"trtllm": trtllm})
    found = parameters(laid(manifest.model_copy(update={"plan": plan}), serving))
    assert expected == found["lora_prefetch_dir"]


@cases(
    "vision expected",
    {
        "planned": ({}, "25"),
        "as-written": ({"threadPercentage": 40}, "40"),
        "time-slices": ({"sharing": "TimeSlicing"}, None),
    },
)
def test_the_encoder_gets_its_share(vision: dict[str, Any], expected: str | None) -> None:
    reported = parameters(files("llava", vision=vision), "multimodal_encoders")
    assert expected == reported.get("mps_thread_percentage")


@pytest.mark.parametrize("missing", ["commands", "a KV cache"])
def test_a_plan_that_says_too_little_is_refused(missing: str) -> None:
    manifest, serving = native_engine("llava")
    if missing == "commands":
        plan = manifest.plan.model_copy(update={"trtllm": None})
        manifest = manifest.model_copy(update={"plan": plan})
    else:
        serving = serving.model_copy(update={"kv_cache": None})
    with pytest.raises(PermanentError, match=missing):
        laid(manifest, serving)


@pytest.mark.parametrize(
    ("engine", "forms"),
    [({}, True), ({"guidedDecoding": "Off"}, False), ({"maxBeamWidth": 2}, False)],
)
def test_forms_need_the_table(engine: dict[str, Any], forms: bool) -> None:  # noqa: FBT001
    found = files("llava", engine, version="1.2.1")
    reported = parameters(found)
    path = "/engine/guided_decoding/xgrammar_tokenizer_info.json"
    assert (reported["guided_decoding_backend"], reported["xgrammar_tokenizer_info_path"]) == (
        ("xgrammar", path) if forms else ("", "")
    )
    for name in ("token_ensemble", "scored_ensemble"):
        inputs = {one.name for one in configs(found)[name].input}
        wanted = {"guided_decoding_guide_type", "guided_decoding_guide"}
        assert inputs & (wanted | {"min_p"}) == (wanted if forms else set())
