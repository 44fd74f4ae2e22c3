"""Bytes per GPU and pool: known numbers, what was measured, and properties of every spec."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm_api.documents.model_facts import ModelFacts, VisionFacts
from mm_api.documents.model_plan import GpuMemory, MemoryPlan, ModelPlan
from mm_api.families import FAMILIES
from mm_api.families.image_layouts.layout import FIXED_SIZE_FACTOR, VARIABLE_SIZE_FACTOR
from mm_api.v1alpha1.runtime import RuntimeSpec
from mm_api.v1alpha1.vision import VisionEngine
from mm_api.vision_runs import SCORES_OF_A_RUN, entries_of_a_run, score_bytes
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.host_memory import host_vision_bytes
from mm_operator.plan.engine.plan import plan_engine
from mm_operator.plan.engine.pools import bound_of, cuda_pool_bytes, shm_bytes
from mm_operator.plan.engine.request import Inputs, Target
from mm_operator.plan.engine.suggestions import TERMS
from mm_operator.plan.engine.tables import gpu_of
from mm_operator.plan.engine.units import MIB
from mm_operator.plan.engine.weights import Attention, Linear, Split, Stack, stacks
from support.cases import cases
from support.model_configs import FOLDERS, WITH_ENGINES, facts_of, planned, reference_plan
from support.model_documents import merged
from support.models import spec_of

FAMILY = st.sampled_from(sorted({*FOLDERS} & {*WITH_ENGINES}))


def memory_of(plan: ModelPlan) -> MemoryPlan:
    assert plan.errors == []
    return plan.memory


def on_gpu(plan: ModelPlan) -> GpuMemory:
    return memory_of(plan).per_gpu[0]


@cases(
    "family own crossing",
    {
        "llava": ("llava", 2 * 32 * 32 * 128 * 2, 0),
        "qwen2-vl-grouped": ("qwen2-vl", 2 * 28 * 4 * 128 * 2, 0),
        "mllama-32-own-8-crossing": ("mllama", 131_072, 32_768),
        "bart": ("bart", 2 * 12 * 1024 * 2, 2 * 12 * 1024 * 2),
        "byt5-narrow-heads": ("byt5", 2 * 4 * 384 * 2, 2 * 4 * 384 * 2),
    },
)
def test_cache_of_a_token(family: str, own: int, crossing: int) -> None:
    memory = memory_of(planned(family))

    assert (memory.kv_bytes_per_token, memory.cross_kv_bytes_per_token) == (own, crossing)


@cases(
    "family expected",
    {
        "llava": ("llava", 6_738_939_904 * 2),
        "flan-t5-embedding-twice": ("flan-t5", (76_961_152 + 32_128 * 512) * 2),
        "t5-tied-head-stored": ("t5", (60_506_624 + 2 * 32_128 * 512) * 2),
    },
)
def test_weights(family: str, expected: int) -> None:
    assert on_gpu(planned(family)).weights_bytes == expected


@cases(
    "quantization expected",
    {
        "16-bit": (None, 2 * 2 * (8 * 4 + 8)),
        "a-scale-of-4-bytes-on-both-sides": ("FP8", 2 * (32 + 2 * 4 + 16)),
        "a-16-bit-scale-for-each-output": ("INT8WeightOnly", 2 * (32 + 16 + 16)),
        "two-numbers-in-a-byte": ("INT4WeightOnly", 2 * (16 + 16 + 16)),
        "scales-by-group-and-by-input": ("INT4AWQ", 2 * (16 + (8 + 4) * 2 + 16)),
        "a-32-bit-scale-for-each-output": ("SmoothQuant", 2 * (32 + 8 * 4 + 16)),
    },
)
def test_bytes_of_a_quantized_matrix(quantization: str | None, expected: int) -> None:
    """Two matrices from 4 to 8 numbers: biases keep the engine's 16 bits, weights do not."""
    style = FAMILIES["llava"].text
    stack = Stack((), (Linear(2, 8, 4, 8, "column"),), 0, 0, None, style)

    assert stack.rank_bytes(Split(), dtype_bytes=2, quantization=quantization) == expected


@pytest.mark.parametrize(
    ("ranks", "queries", "keys"), [(1, 32, 8), (4, 8, 2), (8, 4, 1), (16, 2, 1)]
)
def test_key_value_heads_are_repeated_on_more_ranks_than_heads(
    ranks: int, queries: int, keys: int
) -> None:
    """Each rank has one at least: the queries of a group read it on every rank."""
    share = Attention(4096, 32, 8, 128).on_rank(ranks)

    assert share == Attention(4096, queries, keys, 128)


def test_the_feature_cache_takes_no_gpu_memory() -> None:
    """`featureCacheBytes` is host memory of the encoder's process."""
    cached = planned("llava", vision={"featureCacheBytes": "2Gi"})

    assert on_gpu(cached) == on_gpu(planned("llava"))


def test_the_prompt_table_is_the_guides_example() -> None:
    """2 x 576 x 4096 x 8 is 37,748,736: the guide prints 18,874,368."""
    assert on_gpu(planned("llava")).prompt_table_bytes == 2 * 576 * 4096 * 8 == 37_748_736


@pytest.mark.parametrize("images", [1, 4])
def test_scores_of_qwen2_vl_are_counted_as_they_are_exported(images: int) -> None:
    """A head's of each patch with each of the batch, in 16 and in 32 bits; one image by default."""
    vision = {} if images == 1 else {"maxBatchSize": images}
    patches, heads = images * 5184, 16
    expected = 2 * patches * (8 * 1280 + patches + 3 * heads * patches)
    assert on_gpu(planned("qwen2-vl", vision=vision)).vision_activation_bytes == expected


@cases(
    "family engine expected",
    {
        "blip2-opt": ("blip2-opt", {}, 163_840),
        "llava": ("llava", {}, 4_718_592),
        "vila-four-images": ("vila", {"maxImagesPerRequest": 4}, 4_014_080),
        "onevision-worst": ("llava-onevision", {}, 62_827_520),
        "qwen2-vl-rotary": ("qwen2-vl", {}, 1296 * 3584 * 2 + 16_777_216),
        "mllama-mask": ("mllama", {"maxSeqLen": 1280}, 52_461_568 + 1280 * 6404),
        "t5-none": ("t5", {}, 0),
    },
)
def test_output_of_the_encoder(family: str, engine: dict[str, int], expected: int) -> None:
    """S: what one request holds in the CUDA pool until its answer ends."""
    pool = planned(family, engine).pool
    assert pool.table_bytes_per_request == expected


@settings(max_examples=60, deadline=None)
@given(family=FAMILY, ranks=st.sampled_from([1, 2, 3, 4, 6, 8]), quantized=st.booleans())
def test_shards_sum_to_the_total(family: str, ranks: int, *, quantized: bool) -> None:
    facts = facts_of(family)
    heads = (facts.text.attention_heads, facts.text.key_value_heads, facts.text.vocabulary_size)
    if any(count % ranks for count in heads) or facts.text.intermediate_size % ranks:
        return
    requested = FAMILIES[family].trtllm.quantizations[-1] if quantized else None
    for stack in stacks(facts, FAMILIES[family]):
        complete = stack.rank_bytes(Split(), dtype_bytes=2, quantization=requested)
        shard = stack.rank_bytes(Split(ranks), dtype_bytes=2, quantization=requested)
        extra = ranks * shard - complete
        least = (ranks - 1) * (stack.replicated + stack.embedding) * 2
        # Scales and biases of row-split layers stay complete on every rank too.
        rows = [line for line in stack.linears if line.split == "row"]
        scales = sum(row.count * (row.outputs * 4 + 8 + row.biases * 2) for row in rows)
        columns = sum(line.count for line in stack.linears) + sum(n for n, _ in stack.attentions)
        assert least <= extra <= least + ranks * (scales + 8 * columns + 64 * len(rows))


@settings(max_examples=80, deadline=None)
@given(family=FAMILY, field=st.sampled_from(["batch", "length", "images", "beams"]), data=st.data())
def test_more_never_takes_less(family: str, field: str, data: st.DataObject) -> None:
    facts = facts_of(family)
    less, more = sorted(data.draw(st.tuples(st.integers(1, 12), st.integers(1, 12))))
    if field == "images":
        most = max(1, FAMILIES[family].trtllm.max_images)
        less, more = min(less, most, 3), min(more, most, 3)
    longest = min(facts.text.max_position_embeddings, 32_768)
    engines: list[dict[str, Any]] = []
    for number in (less, more):
        value = {
            "batch": {"maxBatchSize": number},
            "length": {"maxSeqLen": longest - (12 - number) * 8},
            "images": {"maxImagesPerRequest": number},
            "beams": {"maxBeamWidth": number},
        }[field]
        if field == "images" and facts.vision is not None:
            value["maxSeqLen"] = longest
        engines.append(value)
    small, large = (on_gpu(planned(family, engine, gpu="b200-180gb")) for engine in engines)

    assert small.total_bytes <= large.total_bytes
    assert small.kv_cache_bytes <= large.kv_cache_bytes


@pytest.mark.parametrize("family", [one for one in FOLDERS if FAMILIES[one].has_tower])
@pytest.mark.parametrize("gpu", ["l4-24gb", "a100-40gb", "h100-80gb"])
def test_terms_make_the_total(family: str, gpu: str) -> None:
    """Nothing is added that is not shown, and the cache never takes what others need."""
    memory = memory_of(planned(family, gpu=gpu))
    for row in memory.per_gpu:
        assert row.total_bytes == sum(getattr(row, term) for term in TERMS)
    row = memory.per_gpu[0]
    others = row.total_bytes - row.kv_cache_bytes
    late = row.vision_engine_bytes + row.vision_activation_bytes
    # At the worst moment, with the vision engine not loaded yet.
    free = row.gpu_memory_bytes - others + late
    taken = memory.kv_cache_free_gpu_memory_fraction * free
    assert taken + others <= max(row.gpu_memory_bytes, others) + 1


@cases(
    "spec bounded_by live",
    {
        "gateway": ({}, "GatewayConcurrency", 8 + 8 + 8),
        "queue": ({"runtime": {"maxConcurrency": 100}}, "ExecutorQueue", 8 + 16 + 8),
        "endless-queue": (
            {"runtime": {"maxConcurrency": 100, "maxQueueSize": 0}},
            "GatewayConcurrency",
            108,
        ),
    },
)
def test_something_bounds_the_requests(spec: dict[str, Any], bounded_by: str, live: int) -> None:
    """The plan says which limit keeps the number of requests that the pool was computed for."""
    pool = planned("llava", **spec).pool
    assert (pool.bounded_by, pool.live_requests) == (bounded_by, live)


SIDES = (32, 48, 56, 64)
"""Patches along a side of the image."""

PEAKS = {
    ("qwen2-vl", "ONNXRuntime"): (171, 441, 770, 1236),
}
"""Of SIDES."""

WITHOUT_SCORES = {"qwen2-vl": (41, 104)}
"""The same with Torch, of the first and the last of SIDES."""


def _planned(family: str, engine: VisionEngine, side: int) -> int:
    patch = 14
    vision = VisionFacts(
        hidden_size=256,
        layers=3,
        image_size=side * patch,
        patch_size=patch,
        features_per_image=side**2,
        attention_heads=16,
    )
    record = FAMILIES["mistral3"]  # patches of a square: Qwen2-VL's are bounded by its notes
    facts = facts_of(family).model_copy(update={"vision": vision})
    target = Target("m", spec_of({"vision": {"engine": engine}}), facts, record)
    return (host_vision_bytes(target, 1) - 12 * 256**2 * 3 * 4) >> 20


@pytest.mark.parametrize("number", range(len(SIDES)), ids=[f"{side}-patches" for side in SIDES])
@pytest.mark.parametrize(("family", "engine"), PEAKS, ids=[name for name, _ in PEAKS])
def test_scores_of_onnx_runtime(family: str, engine: VisionEngine, number: int) -> None:
    """What is planned for an image is never below what it took."""
    assert PEAKS[family, engine][number] <= _planned(family, engine, SIDES[number])


@pytest.mark.parametrize("family", WITHOUT_SCORES)
def test_one_operation_stores_none(family: str) -> None:
    """With Torch the largest image grew the process by less than one copy of its scores."""
    small, large = WITHOUT_SCORES[family]
    vision = facts_of(family).vision
    assert vision is not None

    assert score_bytes(FAMILIES[family], vision, "Torch") == 0
    assert (small, large) < (16 * 32**4 * 4 >> 20, 16 * 64**4 * 4 >> 20)


def test_images_of_many_scores_run_one_by_one() -> None:
    """32 of the largest images of Mistral Small 3.1 would take 1.2 TB."""
    vision, family = facts_of("mistral3").vision, FAMILIES["mistral3"]

    assert score_bytes(family, vision, "ONNXRuntime") == 16 * (110 * 110) ** 2 * 4
    assert entries_of_a_run(family, vision, "ONNXRuntime", 32) == 1
    assert entries_of_a_run(family, vision, "Torch", 32) == 32


def test_images_of_few_scores_share_a_run() -> None:
    """As many as fit: LLaVA's have 577 positions."""
    vision, family = facts_of("llava").vision, FAMILIES["llava"]
    one = 16 * 577**2 * 4

    assert entries_of_a_run(family, vision, "ONNXRuntime", 32) == SCORES_OF_A_RUN // one == 12
    assert entries_of_a_run(family, vision, "ONNXRuntime", 4) == 4


def test_a_limit_that_scores_exceed_names_the_field() -> None:
    limits = {"runtime": {"resources": {"limits": {"memory": "20Gi"}}}}
    engine = {"engine": {"maxBatchSize": 1}}
    refused = reference_plan(facts_of("qwen2-vl"), limits | engine)
    served = reference_plan(facts_of("qwen2-vl"), limits | engine | {"vision": {"engine": "Torch"}})

    assert refused.fit.verdict == "DoesNotFit"
    assert "4.8 GiB are attention scores of one image" in refused.fit.message
    assert "spec.vision.engine: Torch does not store" in refused.fit.message
    assert served.fit.verdict == "Fits"


def test_many_scores_are_a_warning() -> None:
    """Without a limit, too: the pod requests what they take."""
    found = reference_plan(facts_of("qwen2-vl"))

    assert [one.code for one in found.warnings] == ["VisionScores"]
    assert reference_plan(facts_of("qwen2-vl"), {"vision": {"engine": "Torch"}}).warnings == []


@cases(
    "expected cap queue",
    {
        "engine-and-queue-bound": ((24, "ExecutorQueue"), 100, 16),
        "both-bound-alike": ((24, "GatewayConcurrency"), 24, 16),
        "gateway-bounds": ((10, "GatewayConcurrency"), 10, 16),
        "endless-queue-leaves-the-gateway": ((100, "GatewayConcurrency"), 100, 0),
    },
)
def test_requests_are_bounded(expected: tuple[int, str], cap: int, queue: int) -> None:
    """The smaller of the gateway's number and of what is decoded or waits inside the engine."""
    assert expected == bound_of(cap, queue, 8)


@cases(
    "expected output live factor",
    {
        "never-below-64-mib": (64 * MIB, 163_840, 9, FIXED_SIZE_FACTOR),
        "llava-1.5-7b": (181 * MIB, 4_718_592, 32, FIXED_SIZE_FACTOR),
        "sizes-vary": (217 * MIB, 4_718_592, 32, VARIABLE_SIZE_FACTOR),
        "rounded-up-to-512": (195_691_008, 4_718_593, 33, FIXED_SIZE_FACTOR),
    },
)
def test_cuda_pool(expected: int, output: int, live: int, factor: float) -> None:
    assert expected == cuda_pool_bytes(live, output, factor)


@cases(
    "expected image_size output ranks preprocessing",
    {
        "never-below-256-mib": (256 * MIB, 56, 8192, 1, 1),
        "llava-1.5-7b": (312 * MIB, 336, 4_718_592, 1, 1),
        "ranks-talk-to-each-other": ((312 + 1024) * MIB, 336, 4_718_592, 2, 1),
        "processes": (447 * MIB, 336, 4_718_592, 1, 3),
    },
)
def test_shared_memory(
    expected: int, image_size: int, output: int, ranks: int, preprocessing: int
) -> None:
    """It holds features of every live request, and pixels for each process that touches them."""
    actual = shm_bytes(
        images=1,
        image_size=image_size,
        output_bytes=output,
        live_requests=32,
        pipeline_processes=0,
        ranks=ranks,
        preprocessing=preprocessing,
    )
    assert expected == actual


@cases(
    "expected runtime",
    {
        "planned": (1, {}),
        "ensemble-has-its-own-without-streaming": (2, {"streaming": False}),
        "as-requested": (6, {"blsInstances": 3, "streaming": False}),
        "none": (0, {"blsInstances": 0}),
        "postprocessing": (4, {"triton": {"postprocessingInstanceCount": 4}}),
    },
)
def test_pipeline_processes(expected: int, runtime: dict[str, Any]) -> None:
    assert expected == RuntimeSpec.model_validate(runtime).pipeline_processes


RESULT = Path(__file__).parents[4] / "bench" / "gpu" / "results" / "memory.json"
SIZES: dict[str, dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))["sizes"]
MOST = 1.1


def planned_bytes(size: dict[str, Any]) -> int:
    plan = plan_engine(
        Inputs(
            model="bench",
            spec=spec_of(merged(size["spec"], {"runtime": {"gpu": {"count": 1}}})),
            facts=ModelFacts.model_validate(size["facts"]),
            builder_version="1",
            gpu=gpu_of("h100-80gb"),
        )
    )
    assert isinstance(plan, EnginePlan), plan
    return plan.memory.per_gpu[0].total_bytes


@pytest.mark.parametrize("name", SIZES)
def test_the_plan_holds_what_was_counted(name: str) -> None:
    """Contexts, weights, caches, graphs and activations, at the fullest moment of each process."""
    counted = SIZES[name]["counted_bytes"]

    assert counted <= planned_bytes(SIZES[name]) <= MOST * counted


@pytest.mark.parametrize("name", SIZES)
def test_the_page_says_what_is_planned(name: str) -> None:
    """docs/design/gpu-results.md is made from the result's own number."""
    assert SIZES[name]["planned_bytes"] == planned_bytes(SIZES[name])


def test_three_sizes_were_measured() -> None:
    assert {name.partition(":")[0] for name in SIZES} == {"tiny", "1.3b", "7b"}
