"""`engine.extraLlmApiOptions`: merged over the plan's options, or refused by the option's name."""

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.model_plan import ModelPlan
from mm_operator.plan.engine.serve_options import ALLOWED, NAMED, OWNED, merged
from support.golden import Golden
from support.model_configs import planned, planned_on_pytorch
from support.recorded_server import recorded_server

VERSIONS = ("1.0.0", "1.1.0", "1.2.1", "1.3.0rc20")
PAGE = Path(__file__).parents[4] / "docs/reference/serve-options.md"

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
    return dict(plan.serve.options)


@pytest.mark.parametrize("version", VERSIONS)
def test_options_lie_beside_the_plans(version: str) -> None:
    """Groups keep what the plan set in them; nothing else changes, and pods read the same file."""
    without = options_of(plan_of({}, version, **TEXT))
    plan = plan_of(EVERY, version, **TEXT)
    having = options_of(plan)

    cache = without.pop("kv_cache_config") | EVERY["kv_cache_config"]
    assert having == {**without, **EVERY, "kv_cache_config": cache}
    assert cache["enable_block_reuse"] is True
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


BOUNDS: dict[str, tuple[tuple[object, ...], tuple[object, ...]]] = {
    "stream_interval": ((1, 1024), (0, 1025, True, "4", 1.5, None, [1])),
    "disable_overlap_scheduler": ((True, False), (1, "true", None)),
    "cuda_graph_config.max_batch_size": ((1, 8), (0, 9, True)),
    "cuda_graph_config.batch_sizes": (*(([8], [4, 1]), ([], [9], [0], [1, 1], [True], 4, ["1"])),),
    "cuda_graph_config.enable_padding": ((True,), ("on",)),
    "kv_cache_config.dtype": (("auto", "fp8"), ("nvfp4", "FP8", "int8", None, 8, ["fp8"])),
}
"""What is taken of an option, and what is not; eight is engine.maxBatchSize."""
OTHER_TYPES = ({}, [{"a": 1}], [[1]], float("nan"), date(2026, 1, 1))
"""What YAML can hold and no option has."""
NEWER: dict[str, tuple[object, tuple[str, ...], str]] = {
    "kv_cache_config.dtype": ("fp8", ("1.0.3.2510", "1.1.0rc4"), "1.1.0"),
    "batch_wait_timeout_ms": (5, ("1.1.0", "1.2.0rc4"), "1.2.0"),
}
"""Candidates of the first release are not known to have it."""
FP8_CACHE = {"kv_cache_config": {"dtype": "fp8"}}
CHUNKED = {"enable_chunked_prefill": True}


def on_ampere(dtype: str) -> ModelPlan:
    engine = {"backend": "PyTorch", "extraLlmApiOptions": {"kv_cache_config": {"dtype": dtype}}}
    return planned("qwen2-vl", engine, gpu="a100-80gb", version="1.1.0", model={})


def wrong_plans() -> Iterator[tuple[str, ModelPlan]]:
    for key in (*OWNED, *NAMED, "stream_intervall", "kv_cache_config.dtyp", "zzz"):
        yield key, plan_of(nested(key, 1))
    draft = {"decoding_type": "Eagle", "max_draft_len": 3}
    yield "a group is refused once", plan_of({"speculative_config": draft})
    yield "three at once", plan_of({"zzz": 1, "model": "a", "stream_interval": 0})
    for key, (_, bad) in BOUNDS.items():
        for value in bad:
            yield f"{key} = {value!r}", plan_of(nested(key, value), maxBatchSize=8)
    for key in ("stream_interval", "kv_cache_config"):
        for value in OTHER_TYPES:
            yield f"{key} = {value!r}", plan_of({key: value})
    for value in (None, {}, 1):
        yield f"cuda_graph_config = {value!r}", plan_of({"cuda_graph_config": value})
    graphs = {"batch_sizes": [1], "max_batch_size": 1}
    yield "sizes are listed and generated", plan_of({"cuda_graph_config": graphs})
    for key in ("enable_partial_reuse", "copy_on_partial_reuse"):
        yield f"{key} without reuse", plan_of({"kv_cache_config": {key: True}})
    for key, (value, older, _) in NEWER.items():
        for version in older:
            yield f"{key} of {version}", plan_of(nested(key, value), version)
    yield "FP8 on Ampere", on_ampere("fp8")
    yield "prompts with images in parts", plan_of(CHUNKED)
    # Also of texts alone: the message names the classes that have it.
    texts = planned_on_pytorch("gemma3", extraLlmApiOptions=CHUNKED, maxImagesPerRequest=0)
    yield "prompts of another class in parts", texts


def test_what_is_wrong_is_refused_by_name(golden: Golden) -> None:
    found = {
        name: [f"{one.path}: {one.message} ({one.code})" for one in plan.errors]
        for name, plan in wrong_plans()
    }
    assert [] not in found.values()
    golden.check_yaml("refused/serve-options.yaml", found)


def test_what_is_right_is_taken() -> None:
    plans = [
        *(
            plan_of(nested(key, one), maxBatchSize=8)
            for key, (good, _) in BOUNDS.items()
            for one in good
        ),
        *(plan_of(nested(key, value), first) for key, (value, _, first) in NEWER.items()),
        on_ampere("auto"),
        plan_of({"enable_chunked_prefill": False}),
    ]
    assert [plan.errors for plan in plans] == [[]] * len(plans)


def test_every_first_version_has_a_case() -> None:
    """A row that is newer than the backend belongs into the test above."""
    assert [row.key for row in ALLOWED if row.since != "1.0.0"] == [
        "batch_wait_timeout_ms",
        "kv_cache_config.dtype",
    ]


@pytest.mark.parametrize("family", ["qwen2-vl", "gemma3"])
def test_a_cache_of_fp8_is_planned(family: str) -> None:
    """A token takes half the bytes, and so do full batches; the rest of the memory stays."""
    full, half = (
        planned_on_pytorch(family, extraLlmApiOptions=options) for options in ({}, FP8_CACHE)
    )
    assert full.errors == half.errors == []
    before, after = (one.memory.per_gpu[0] for one in (full, half))

    assert 2 * after.kv_cache_bytes == before.kv_cache_bytes
    assert after.weights_bytes == before.weights_bytes
    assert options_of(half)["kv_cache_config"]["dtype"] == "fp8"


def test_auto_is_the_plans_own_cache() -> None:
    """The checkpoint decides, as without the option."""
    auto = plan_of({"kv_cache_config": {"dtype": "auto"}})

    assert auto.errors == []
    assert auto.memory == plan_of({}).memory


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
