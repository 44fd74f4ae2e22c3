"""`engine.extraLlmApiOptions`: merged over the plan's options, or refused by the option's name."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.model_plan import ModelPlan
from mm_operator.plan.engine.serve_options import ALLOWED, NAMED, OWNED, merged
from support.model_configs import planned, planned_on_pytorch
from support.recorded_server import recorded_server

VERSIONS = ("1.0.0", "1.1.0", "1.2.1", "1.3.0rc20")
PAGE = Path(__file__).parents[4] / "docs/serve-options.md"

EVERY: dict[str, Any] = {
    "stream_interval": 4,
    "disable_overlap_scheduler": True,
    "print_iter_log": True,
    "enable_chunked_prefill": True,
    "cuda_graph_config": {"enable_padding": True, "batch_sizes": [1, 2, 4]},
    "kv_cache_config": {"enable_partial_reuse": False, "copy_on_partial_reuse": False},
}
"""Every option that all versions have, but the one that excludes another."""

TEXT = {"maxImagesPerRequest": 0, "kvCache": {"reuse": True}}


def plan_of(options: dict[str, Any], version: str = "1.1.0", **engine: Any) -> ModelPlan:
    return planned_on_pytorch("qwen2-vl", version, extraLlmApiOptions=options, **engine)


def nested(key: str, value: object) -> dict[str, Any]:
    group, _, name = key.rpartition(".")
    return {group: {name: value}} if group else {name: value}


def options_of(plan: ModelPlan) -> dict[str, Any]:
    assert plan.errors == []
    assert plan.serve is not None
    return dict(plan.serve.options)


def refusal(options: dict[str, Any], version: str = "1.1.0", **engine: Any) -> tuple[str, str, str]:
    (error,) = plan_of(options, version, **engine).errors
    return error.code, error.path.removeprefix("spec.engine.extraLlmApiOptions."), error.message


@pytest.mark.parametrize("version", VERSIONS)
def test_options_lie_beside_the_plans(version: str) -> None:
    """Groups keep what the plan set in them; nothing else changes, and pods read the same file."""
    without = options_of(plan_of({}, version, **TEXT))
    plan = plan_of(EVERY, version, **TEXT)
    having = options_of(plan)

    cache = without.pop("kv_cache_config") | EVERY["kv_cache_config"]
    assert having == {**without, **EVERY, "kv_cache_config": cache}
    assert cache["enable_block_reuse"] is True
    assert plan.serving_plan is not None
    assert plan.serving_plan.trtllm_serve == plan.serve


def test_merging_leaves_the_plans_options_alone() -> None:
    own: dict[str, Any] = {"kv_cache_config": {"enable_block_reuse": True}}

    assert merged(own, [("kv_cache_config.enable_partial_reuse", False)]) != own
    assert own == {"kv_cache_config": {"enable_block_reuse": True}}


@pytest.mark.parametrize("version", ["1.0.0", "1.2.1"])
def test_a_server_takes_the_merged_file(version: str, tmp_path: Path) -> None:
    """The recorded server of a version refuses fields that it has not, and starts with these."""
    newer: dict[str, Any] = {"batch_wait_timeout_ms": 5}
    newer["kv_cache_config"] = EVERY["kv_cache_config"] | {"dtype": "fp8"}
    extra = newer if version == "1.2.1" else {}
    options = options_of(plan_of(EVERY | extra, version, **TEXT))
    with recorded_server(tmp_path, version, options) as server:
        assert f"options {json.dumps(options, sort_keys=True)}" in server.log


@pytest.mark.parametrize("key", OWNED)
def test_the_plans_own_options_are_refused(key: str) -> None:
    """The message names the field that sets it."""
    code, path, message = refusal(nested(key, 1))

    assert (code, path) == ("OptionOfPlan", key)
    assert f"by spec.{OWNED[key]}: remove it here" in message


@pytest.mark.parametrize("key", NAMED)
def test_options_that_are_not_planned_are_refused(key: str) -> None:
    code, path, message = refusal(nested(key, 1))

    assert (code, path) == ("OptionNotPlanned", key)
    assert f"{NAMED[key]}: remove it" in message


def test_a_group_is_refused_once() -> None:
    draft = {"decoding_type": "Eagle", "max_draft_len": 3}
    code, path, message = refusal({"speculative_config": draft})

    assert (code, path) == ("OptionNotPlanned", "speculative_config")
    assert "the memory of a draft is not planned" in message


@pytest.mark.parametrize(
    ("options", "key", "near"),
    [
        ({"stream_intervall": 2}, "stream_intervall", "the nearest are stream_interval"),
        ({"kv_cache_config": {"dtyp": "fp8"}}, "kv_cache_config.dtyp", "are kv_cache_config.dtype"),
        ({"zzz": 2}, "zzz", "knows no such option (it merges stream_interval,"),
    ],
)
def test_unknown_options_are_refused(options: dict[str, Any], key: str, near: str) -> None:
    code, path, message = refusal(options)

    assert (code, path) == ("OptionUnknown", key)
    assert near in message


def test_every_wrong_option_is_named() -> None:
    plan = plan_of({"zzz": 1, "model": "a", "stream_interval": 0})

    assert [error.code for error in plan.errors] == ["OptionOfPlan", "OptionValue", "OptionUnknown"]


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("stream_interval", (1, 1024), (0, 1025, True, "4", 1.5, None, [1])),
        ("disable_overlap_scheduler", (True, False), (1, "true", None)),
        ("cuda_graph_config.max_batch_size", (1, 8), (0, 9, True)),
        ("cuda_graph_config.batch_sizes", ([8], [4, 1]), ([], [9], [0], [1, 1], [True], 4, ["1"])),
        ("cuda_graph_config.enable_padding", (True,), ("on",)),
        ("kv_cache_config.dtype", ("auto", "fp8"), ("nvfp4", "FP8", "int8", None, 8, ["fp8"])),
    ],
)
def test_values_have_bounds(key: str, good: tuple[object, ...], bad: tuple[object, ...]) -> None:
    """The message has the value and what was expected; eight is engine.maxBatchSize."""
    for value in good:
        assert plan_of(nested(key, value), maxBatchSize=8).errors == []
    for value in bad:
        code, path, message = refusal(nested(key, value), maxBatchSize=8)
        assert (code, path) == ("OptionValue", key)
        assert f"{value!r} is not " in message


@pytest.mark.parametrize("value", [{}, [{"a": 1}], [[1]], float("nan"), date(2026, 1, 1)], ids=repr)
def test_values_of_other_types_are_refused(value: object) -> None:
    """What YAML can hold and no option has."""
    for key in ("stream_interval", "print_iter_log", "kv_cache_config"):
        assert refusal({key: value})[:2] == ("OptionValue", key)


@pytest.mark.parametrize("value", [None, {}, 1])
def test_a_group_is_an_object(value: object) -> None:
    code, path, message = refusal({"cuda_graph_config": value})

    assert (code, path) == ("OptionValue", "cuda_graph_config")
    assert "an object with cuda_graph_config.enable_padding, " in message


def test_sizes_of_graphs_are_listed_or_generated() -> None:
    """TorchLlmArgs.validate_cuda_graph_config refuses both."""
    code, path, _ = refusal({"cuda_graph_config": {"batch_sizes": [1], "max_batch_size": 1}})

    assert (code, path) == ("OptionsExclude", "cuda_graph_config.max_batch_size")


@pytest.mark.parametrize("key", ["enable_partial_reuse", "copy_on_partial_reuse"])
def test_options_of_reuse_need_reuse(key: str) -> None:
    """Without it they would be accepted and change nothing."""
    code, path, message = refusal({"kv_cache_config": {key: True}})

    assert (code, path) == ("OptionWithoutEffect", f"kv_cache_config.{key}")
    assert "set engine.kvCache.reuse to true" in message


@pytest.mark.parametrize(
    ("key", "value", "older", "first"),
    [
        ("kv_cache_config.dtype", "fp8", ("1.0.3.2510", "1.1.0rc4"), "1.1.0"),
        ("batch_wait_timeout_ms", 5, ("1.1.0", "1.2.0rc4"), "1.2.0"),
    ],
)
def test_older_versions_are_refused(
    key: str, value: object, older: tuple[str, ...], first: str
) -> None:
    """The message has both versions; candidates of the first release are not known to have it."""
    for version in older:
        code, path, message = refusal(nested(key, value), version)
        assert (code, path) == ("OptionTooNew", key)
        assert f"since {first}, and the image has {version}" in message
    assert plan_of(nested(key, value), first).errors == []


def test_every_first_version_has_a_case() -> None:
    """A row that is newer than the backend belongs into the test above."""
    assert [row.key for row in ALLOWED if row.since != "1.0.0"] == [
        "batch_wait_timeout_ms",
        "kv_cache_config.dtype",
    ]


FP8_CACHE = {"kv_cache_config": {"dtype": "fp8"}}


@pytest.mark.parametrize("family", ["qwen2-vl", "gemma3"])
def test_a_cache_of_fp8_is_planned(family: str) -> None:
    """A token takes half the bytes, and so do full batches; the rest of the memory stays."""
    full, half = (
        planned_on_pytorch(family, extraLlmApiOptions=options) for options in ({}, FP8_CACHE)
    )
    assert full.errors == half.errors == []
    assert full.memory is not None
    assert half.memory is not None
    before, after = (one.memory.per_gpu[0] for one in (full, half) if one.memory)

    assert 2 * after.kv_cache_bytes == before.kv_cache_bytes
    assert after.weights_bytes == before.weights_bytes
    assert options_of(half)["kv_cache_config"]["dtype"] == "fp8"


def test_auto_is_the_plans_own_cache() -> None:
    """The checkpoint decides, as without the option."""
    auto = plan_of({"kv_cache_config": {"dtype": "auto"}})

    assert auto.errors == []
    assert auto.memory == plan_of({}).memory


def test_a_cache_of_fp8_needs_a_gpu() -> None:
    """As FP8 weights do, Ada or newer; auto needs none."""

    def on_ampere(dtype: str) -> ModelPlan:
        engine = {"backend": "PyTorch", "extraLlmApiOptions": {"kv_cache_config": {"dtype": dtype}}}
        return planned("qwen2-vl", engine, gpu="a100-80gb", version="1.1.0", model={})

    (error,) = on_ampere("fp8").errors

    assert error.code == "Fp8NeedsGpu"
    assert error.path == "spec.engine.extraLlmApiOptions.kv_cache_config.dtype"
    assert "needs compute capability 8.9" in error.message
    assert on_ampere("auto").errors == []


def test_prompts_with_images_are_not_prefilled_in_parts() -> None:
    """Switched off it may be written all the same."""
    code, path, message = refusal({"enable_chunked_prefill": True})

    assert (code, path) == ("ChunkedPrefill", "enable_chunked_prefill")
    assert "or set engine.maxImagesPerRequest to 0" in message
    assert plan_of({"enable_chunked_prefill": False}).errors == []


def test_classes_without_it_prefill_no_parts() -> None:
    """Also of texts alone: the message names the classes that have it."""
    options = {"enable_chunked_prefill": True}
    plan = planned_on_pytorch("gemma3", extraLlmApiOptions=options, maxImagesPerRequest=0)
    (error,) = plan.errors

    assert error.code == "ChunkedPrefill"
    assert "does not have it for Gemma3ForConditionalGeneration (it has it for Llava" in (
        error.message
    )


def test_limits_stay_with_parts() -> None:
    """A prompt fits into one step all the same: that upstream needs it no more is not shown."""
    chunked = plan_of({"enable_chunked_prefill": True}, maxImagesPerRequest=0)

    assert chunked.limits == plan_of({}, maxImagesPerRequest=0).limits


def test_options_change_no_checkpoint() -> None:
    """What is staged is the same: the server's file is not part of it."""
    assert plan_of({"stream_interval": 4}).fingerprint == plan_of({}).fingerprint


def test_the_page_lists_every_option() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = [*(row.key for row in ALLOWED), *OWNED, *NAMED]

    assert [name for name in names if f"`{name}`" not in text] == []
