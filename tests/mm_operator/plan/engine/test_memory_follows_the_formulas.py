"""Bytes per GPU: known numbers, and properties that hold for every spec."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm_api.documents.model_plan import GpuMemory, MemoryPlan, ModelPlan
from mm_api.families import FAMILIES
from mm_operator.plan.engine.fit import TERMS
from mm_operator.plan.engine.weights import Attention, Linear, Split, Stack, stacks
from support.cases import cases
from support.model_configs import FOLDERS, WITH_ENGINES, facts_of, planned

FAMILY = st.sampled_from(sorted({*FOLDERS} & {*WITH_ENGINES}))


def memory_of(plan: ModelPlan) -> MemoryPlan:
    assert plan.errors == []
    assert plan.memory is not None
    return plan.memory


def gpu_of(plan: ModelPlan) -> GpuMemory:
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
    """A key and a value of each head per layer that keeps them."""
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
    assert gpu_of(planned(family)).weights_bytes == expected


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

    assert gpu_of(cached) == gpu_of(planned("llava"))


def test_the_prompt_table_is_the_guides_example() -> None:
    """2 x 576 x 4096 x 8 is 37,748,736: the guide prints 18,874,368."""
    assert gpu_of(planned("llava")).prompt_table_bytes == 2 * 576 * 4096 * 8 == 37_748_736


@pytest.mark.parametrize("images", [1, 4])
def test_scores_of_qwen2_vl_are_counted_as_they_are_exported(images: int) -> None:
    """A head's of each patch with each of the batch, in 16 and in 32 bits; one image by default."""
    vision = {} if images == 1 else {"maxBatchSize": images}
    patches, heads = images * 5184, 16
    expected = 2 * patches * (8 * 1280 + patches + 3 * heads * patches)
    assert gpu_of(planned("qwen2-vl", vision=vision)).vision_activation_bytes == expected


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
    assert pool is not None
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
    small, large = (gpu_of(planned(family, engine, gpu="b200-180gb")) for engine in engines)

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
        "no-gateway": ({"gateway": {"enabled": False}}, "ExecutorQueue", 32),
    },
)
def test_something_bounds_the_requests(spec: dict[str, Any], bounded_by: str, live: int) -> None:
    """The plan says which limit keeps the number of requests that the pool was computed for."""
    pool = planned("llava", **spec).pool
    assert pool is not None
    assert (pool.bounded_by, pool.live_requests) == (bounded_by, live)
