"""Backend VLLM: the plan is a command of a stock image, right for its version, or a refusal.

What a driver counted of vLLM 0.26.0 on an H200 beside keys and values is of the facts of bench/gpu.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.families import FAMILIES
from mm_api.vllm_classes import VERSIONS, vllm_since
from mm_operator.digests import plain
from mm_operator.plan.engine.backends.vllm_arguments import OWNED, kind_of
from mm_operator.plan.engine.gpu import computes_on_gpu
from support.cases import cases
from support.golden import Golden
from support.model_configs import MODELS, facts_of, planned
from support.models import spec_of

RESULTS = Path(__file__).parents[4] / "bench" / "gpu" / "results"
COUNTED_MIB = {"1.3b": 4924, "7b": 15872}
"""nvidia-smi after the load of bench/gpu, less the keys and values that its flags named."""

SERVED = tuple(name for name, one in FAMILIES.items() if vllm_since(one.architectures))
GPU = "h200-141gb"
DISAGGREGATED = {"placement": "Disaggregated", "engine": "Torch"}


def on_vllm(family: str, version: str | None = None, **engine: Any) -> ModelPlan:
    facts, gpu = engine.pop("facts", None), engine.pop("gpu", GPU)
    more = {"runtime": {"vllmVersion": version}} if version else {}
    for part in ("vision", "runtime"):
        if part in engine:
            more[part] = engine.pop(part)
    fields = {"backend": "VLLM", **engine}
    return planned(family, fields, gpu=gpu, facts=facts, model={}, **more)


def flags_of(plan: ModelPlan) -> dict[str, list[str]]:
    assert plan.errors == []
    found: dict[str, list[str]] = {}
    for word in plan.vllm.argv[3:]:
        if word.startswith("--"):
            found[word[2:]] = []
        else:
            [*_, last] = found.values()
            last.append(word)
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("family", ["llava", "qwen2-5-vl"])
def test_every_flag_exists(family: str, version: str) -> None:
    flags = flags_of(on_vllm(family, version, parallelism={"tensor": 2}, vision=DISAGGREGATED))
    for name, values in flags.items():
        kind = kind_of(name, version) or kind_of(name.removeprefix("no-"), version)
        assert kind is not None, name
        assert bool(values) == (kind not in ("switch", "toggle")), name


@pytest.mark.parametrize("family", ["llava", "qwen2-5-vl"])
def test_plans_are_as_recorded(family: str, golden: Golden) -> None:
    plan = plain(on_vllm(family))
    keys = ("limits", "vllm", "memory", "fit", "reasons", "warnings", "errors")
    recorded = yaml.safe_dump({key: plan[key] for key in keys}, sort_keys=False)
    golden.check(f"vllm/{family}.yaml", recorded)


@pytest.mark.parametrize("size", COUNTED_MIB)
def test_the_plan_holds_what_was_counted(size: str) -> None:
    """Never below what the driver counted beside keys and values, nor 10 % above it."""
    sizes = json.loads((RESULTS / "memory.json").read_text(encoding="utf-8"))["sizes"]
    facts = next(one["facts"] for name, one in sizes.items() if name.startswith(size))
    plan = on_vllm(
        "llava",
        facts=ModelFacts.model_validate(facts),
        maxBatchSize=32,
        maxSeqLen=1024,
        maxNumTokens=8192,
    )
    (gpu,) = plan.memory.per_gpu
    beside = (gpu.total_bytes - gpu.kv_cache_bytes) / 2**20

    assert COUNTED_MIB[size] <= beside <= 1.1 * COUNTED_MIB[size]


def test_the_plan_holds_what_was_counted_of_qwen() -> None:
    """The same of Qwen2.5-VL's shape, whose processor leaves 1280 x 28 x 28 pixels of an image."""
    cases = json.loads((RESULTS / "vllm.json").read_text(encoding="utf-8"))["cases"]
    counted = cases["qwen-7b"]["memory"]["counted_rest_bytes"]
    facts = facts_of("qwen2-5-vl")
    vision = facts.vision.model_copy(update={"max_pixels": 1280 * 28 * 28})
    sized = facts.model_copy(update={"vision": vision})
    plan = on_vllm("qwen2-5-vl", facts=sized, maxBatchSize=32, maxSeqLen=2048)
    (gpu,) = plan.memory.per_gpu
    assert counted <= gpu.total_bytes - gpu.kv_cache_bytes <= 1.1 * counted


def test_ranks_leave_out_of_the_utilization_what_was_counted() -> None:
    """NCCL's and the all-reduce's buffers come after the profile that the utilization bounds."""
    found = json.loads((RESULTS / "two.json").read_text(encoding="utf-8"))["ranks"]["memory"]
    memory = on_vllm("llava", parallelism={"tensor": 2}).memory
    assert memory.gpu_memory_utilization is not None
    for gpu, counted in zip(memory.per_gpu, found["counted_bytes"], strict=True):
        total = gpu.total_bytes - gpu.kv_cache_bytes + memory.kv_pool_bytes
        outside = total - memory.gpu_memory_utilization * gpu.gpu_memory_bytes
        needed = counted - found["utilization"] * gpu.gpu_memory_bytes
        assert needed <= outside <= 1.1 * needed


@cases(
    "split sent",
    {
        "layers-over-nodes": ({"tensor": 4, "nodes": 2}, 2 * 32 * 4096 * 2),
        "stages-over-nodes": ({"tensor": 2, "pipeline": 2, "nodes": 2}, 4096 * 2),
    },
)
def test_pods_of_several_nodes_share_a_plan(split: dict[str, int], sent: int) -> None:
    """A GPU has the same share as in one pod; host memory and /dev/shm are those of half of it."""
    alone, plan = (on_vllm("llava", parallelism=one) for one in (split | {"nodes": 1}, split))
    assert plan.memory.per_gpu == alone.memory.per_gpu
    assert plan.memory.host.total_bytes < alone.memory.host.total_bytes
    assert plan.memory.shm_bytes < alone.memory.shm_bytes
    flags = flags_of(plan)
    assert (flags["nnodes"], flags["distributed-executor-backend"]) == (["2"], ["mp"])
    (links,) = (one.message for one in plan.warnings if one.code == "Nodes")
    assert links.startswith(f"2 pods of 2 ranks, each on a node with free GPUs for them; {sent:,} ")
    assert not any(one.code == "Nodes" for one in alone.warnings)


@pytest.mark.parametrize("share", ["Auto", "0.5"])
def test_the_utilization_follows_from_the_plan(share: str) -> None:
    """Context and libraries stay outside of it; of the rest, keys and values get their share."""
    plan = on_vllm("llava", kvCache={"freeGpuMemoryFraction": share})
    memory = plan.memory
    assert memory.gpu_memory_utilization is not None
    (gpu,) = memory.per_gpu
    part = memory.gpu_memory_utilization * gpu.gpu_memory_bytes

    assert flags_of(plan)["gpu-memory-utilization"] == [str(memory.gpu_memory_utilization)]
    assert part + gpu.context_bytes < gpu.gpu_memory_bytes
    assert memory.kv_pool_bytes + gpu.weights_bytes + gpu.vision_engine_bytes < part
    assert (part > 0.9 * gpu.gpu_memory_bytes) == (share == "Auto")


def test_fields_reach_the_command() -> None:
    flags = flags_of(
        on_vllm(
            "qwen2-5-vl",
            maxBatchSize=3,
            maxImagesPerRequest=4,
            maxSeqLen=8192,
            parallelism={"tensor": 2},
            kvCache={"reuse": True},
            extraArgs=["--kv-cache-dtype", "fp8"],
        )
    )
    assert flags["max-num-seqs"] == ["3"]
    assert flags["limit-mm-per-prompt"] == ['{"image":4,"video":0,"audio":0}']
    assert flags["max-model-len"] == ["8192"]
    audio = on_vllm("qwen2-audio")
    assert flags_of(audio)["limit-mm-per-prompt"] == ['{"image":0,"video":0,"audio":8}']
    assert "VllmAudio" in {one.code for one in audio.warnings}
    video = on_vllm("qwen2-vl", maxVideoFrames=8, maxBatchSize=2)
    assert flags_of(video)["limit-mm-per-prompt"] == [
        '{"image":1,"video":{"count":1,"num_frames":8},"audio":0}'
    ]
    assert flags_of(video)["media-io-kwargs"] == ['{"video":{"num_frames":8}}']
    assert "trust-request-mm-kwargs" not in flags_of(video)  # of 0.26, which trusts all
    assert "trust-request-mm-kwargs" in flags_of(on_vllm("qwen2-vl", "0.31.0", maxVideoFrames=8))
    assert video.serving_plan.gateway.max_video_frames == 8
    assert flags["tensor-parallel-size"] == ["2"]
    assert flags["enable-prefix-caching"] == []
    assert list(flags)[-1] == "kv-cache-dtype"


def test_videos_take_memory() -> None:
    """All frames are encoded together, and lie in host memory; a step holds their features."""
    video, still = on_vllm("qwen2-vl", maxVideoFrames=32), on_vllm("qwen2-vl")
    (wide,), (narrow,) = video.memory.per_gpu, still.memory.per_gpu
    assert wide.vision_activation_bytes > 2 * narrow.vision_activation_bytes
    assert video.memory.host.step_bytes > still.memory.host.step_bytes + 32 * 16 * 1000**2
    assert video.limits.max_num_tokens > 16 * 1296


def test_recordings_are_read_by_an_encoder() -> None:
    """Its positions, not its frames, have keys and values; one recording a request."""
    plan = on_vllm("whisper")
    assert flags_of(plan)["limit-mm-per-prompt"] == ['{"image":0,"video":0,"audio":1}']
    assert "VllmAudio" in {one.code for one in plan.warnings}
    (gpu,) = plan.memory.per_gpu
    sequence = (128 + 1504) * 32 * 2 * 1280 * 2  # in blocks of 16
    assert 1 < gpu.kv_cache_bytes / (8 * sequence) < 1.02


def test_keys_of_one_byte_take_half() -> None:
    wide, half = on_vllm("llava"), on_vllm("llava", extraArgs=["--kv-cache-dtype", "fp8"])

    assert wide.memory.kv_bytes_per_token == 2 * half.memory.kv_bytes_per_token


def test_what_the_plan_decides_is_an_argument() -> None:
    found = {name for name in OWNED for version in VERSIONS if kind_of(name, version)}
    assert found == set(OWNED)


@pytest.mark.parametrize("family", sorted({*MODELS} - {*SERVED, "generic"}))
def test_a_family_without_a_class_is_refused(family: str) -> None:
    problems = on_vllm(family).errors

    assert ("spec.engine.backend", "BackendFamily") in {(one.path, one.code) for one in problems}
    named = any("use backend Reference" in one.message for one in problems)
    assert named == FAMILIES[family].is_served("Reference")


@pytest.mark.parametrize("family", SERVED)
def test_a_family_with_a_class_is_planned(family: str) -> None:
    assert on_vllm(family).errors == []


@cases(
    "runtime version",
    {
        "tag": ({"image": "registry.example.org:5000/vllm/vllm-openai:v0.24.0-cu129"}, "0.24.0"),
        "default": ({}, "0.26.0"),
        "stated": ({"image": "example.org/ours:1", "vllmVersion": "0.23.0"}, "0.23.0"),
        "digest": ({"image": "a/b@sha256:0", "vllmVersion": "0.26.0"}, "0.26.0"),
        "unknown": ({"image": "example.org/ours:1"}, "ImageUnknown"),
        "older": ({"vllmVersion": "0.10.2"}, "VersionUnknown"),
        "newer": ({"image": "vllm/vllm-openai:v9.0.0"}, "VersionUnknown"),
    },
)
def test_the_version_is_read_or_stated(runtime: dict[str, str], version: str) -> None:
    """Of the image's tag; what the spec states wins; an unknown one is refused with its field."""
    plan = planned("llava", {"backend": "VLLM"}, gpu=GPU, model={}, runtime=runtime)
    found = (
        [(one.code, one.path) for one in plan.errors] if plan.vllm is None else plan.vllm.version
    )

    assert found in (version, [(version, "spec.runtime.vllmVersion")])


@cases(
    "image version on_gpu",
    {
        "stated": ("example.org/ours:1", "0.32.0+cpu", False),
        "name": ("vllm/vllm-openai-cpu:v0.32.0-x86_64", None, False),
        "tag": ("example.org/vllm:v0.32.0-cpu", None, False),
        "host": ("my-cpu.example.org/vllm:v0.32.0", None, True),
        "gpu": ("vllm/vllm-openai:v0.32.0-cu129", "0.32.0", True),
    },
)
def test_a_build_for_cpus_needs_no_gpu(image: str, version: str | None, on_gpu: bool) -> None:  # noqa: FBT001
    """Its version says so, or its image's name."""
    runtime = {"image": image} | ({"vllmVersion": version} if version else {})
    spec = spec_of({"engine": {"backend": "VLLM"}, "runtime": runtime})

    assert computes_on_gpu(spec, None) == on_gpu


CPU = {"vllmVersion": "0.32.0+cpu"}


def on_cpu(engine: dict[str, Any], runtime: dict[str, Any], **spec: Any) -> ModelPlan:
    fields, runtime = {"backend": "VLLM", **engine}, {**CPU, **runtime}
    return planned("llava", fields, gpu=None, model={}, runtime=runtime, **spec)


def test_keys_and_values_lie_in_the_pods_memory() -> None:
    """As many GiB as full batches need, named to vLLM, requested by the pod; threads as CPUs."""
    plan = on_cpu(
        {"maxBatchSize": 3, "maxSeqLen": 2000}, {"resources": {"limits": {"cpu": "1500m"}}}
    )
    host, environment = plan.memory.host, plan.vllm.environment

    assert plan.memory.per_gpu == []
    assert "gpu-memory-utilization" not in flags_of(plan)
    assert (plan.dtype, plan.memory.kv_bytes_per_token) == ("float16", 2 * 32 * 4096 * 2)
    # Three sequences of 16 blocks of 128 tokens.
    assert host.kv_cache_bytes == 3 << 30 >= 3 * 2048 * 2 * 32 * 4096 * 2
    assert environment["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert environment["OMP_NUM_THREADS"] == "2"
    assert host.total_bytes > host.kv_cache_bytes + 2 * 7_000_000_000
    assert host.planned_limit_bytes > host.total_bytes + plan.memory.shm_bytes


def test_facts_of_other_files_are_another_stage() -> None:
    """The staged files are the checkpoint's, however they are served."""
    one, other = on_vllm("llava"), on_vllm("llava", maxBatchSize=2)
    changed = facts_of("llava").model_copy(update={"source_digest": "sha256:" + "1" * 64})

    assert one.fingerprint == other.fingerprint
    assert on_vllm("llava", facts=changed).fingerprint != one.fingerprint


def test_disaggregated_encoders_are_planned() -> None:
    """Their bytes, their files in the engine, and a folder for features of all requests, twice."""
    disaggregated, alone = on_vllm("llava", vision=DISAGGREGATED), on_vllm("llava")
    assert disaggregated.errors == []
    features = disaggregated.vllm.features
    transfer = json.loads(flags_of(disaggregated)["ec-transfer-config"][0])
    assert "enable-prefix-caching" in flags_of(disaggregated)  # a cache, or vLLM renames images
    assert transfer["ec_connector_extra_config"] == {"shared_storage_path": features.path}
    assert features.most_bytes == 2 * 16 * (576 * 4096 * 2 + 8192)
    engine, device = disaggregated.build_plan.engine, disaggregated.serving_plan.device
    assert (engine.disaggregated_encoders, device) == ("On", "CUDA")
    assert disaggregated.fingerprint != alone.fingerprint
    assert disaggregated.memory.encoder.vision_bytes > 600 << 20
    # Triton gives out GPU tensors that it never copied where it has a pinned pool.
    assert disaggregated.serving_plan.encoders.pools.pinned_bytes == 0


def test_streams_wait_for_short_steps_behind_encoders() -> None:
    """They are shorter than an image's prompt, and all of them are captured."""
    found = {}
    for name, fields in {
        "alone": {},
        "planned": {"vision": DISAGGREGATED},
        "many": {"vision": DISAGGREGATED, "maxBatchSize": 300},
        "written": {"vision": DISAGGREGATED, "maxNumTokens": 4096, "maxInputLen": 900},
    }.items():
        flags = flags_of(on_vllm("llava", **{"maxBatchSize": 32, **fields}))
        captured = flags.get("compilation-config", ["{}"])[0]
        found[name] = (flags["max-num-batched-tokens"], json.loads(captured))
    assert found == {
        "alone": (["8192"], {}),
        "planned": (["320"], {"max_cudagraph_capture_size": 320}),
        "many": (["588"], {"max_cudagraph_capture_size": 512}),
        "written": (["4096"], {"max_cudagraph_capture_size": 512}),
    }
    (why,) = (
        one.reason
        for one in on_vllm("llava", vision=DISAGGREGATED).reasons
        if one.field == "maxNumTokens"
    )
    assert why == "streams wait for a step: a token of each sequence, and a part of a prompt"


def four_views() -> ModelFacts:
    facts = facts_of("llava-onevision")
    return facts.model_copy(update={"vision": facts.vision.model_copy(update={"grid_limit": 4})})


def english_alone() -> ModelFacts:
    facts = facts_of("whisper")
    text = facts.text.model_copy(update={"vocabulary_size": 51_864})
    return facts.model_copy(update={"text": text})


TINY_SHARE = {"freeGpuMemoryFraction": "0.01"}
ARGUMENTS = {
    "of the plan": ["--max-model-len", "9"],
    "of the plan, negated": ["--no-enable-prefix-caching"],
    "of the gateway": ["--tool-call-parser=hermes"],
    "not planned": ["--speculative-config", "{}"],
    "unknown": ["--max-num-seq", "4"],
    "bare": ["fp8"],
    "short": ["-tp", "2"],
    "key of the plan": ["--limit-mm-per-prompt.image", "9"],
    "no choice": ["--kv-cache-dtype", "fp7"],
    "no number": ["--max-logprobs", "many"],
    "value of a switch": ["--enforce-eager", "true"],
    "twice": ["--enforce-eager", "--no-enforce-eager"],
}
WRONG = {
    "share for less than a sequence": on_vllm("llava", maxSeqLen=4096, kvCache=TINY_SHARE),
    # There, --disable-NAME is --no-enable-NAME, and the plan's as well.
    "name before 0.33": on_vllm("llava", "0.33.0", extraArgs=["--disable-prefix-caching"]),
    # Nine views are packed whatever the checkpoint says, and each of several images is cut.
    "four views": on_vllm("llava-onevision", facts=four_views()),
    "several images in views": on_vllm("llava-onevision", maxImagesPerRequest=2),
    "video without times": on_vllm("qwen2-5-vl", "0.30.0", maxVideoFrames=8),
    "video of more than a step": on_vllm("qwen2-vl", maxVideoFrames=8, maxNumTokens=4096),
    "English alone": on_vllm("whisper", facts=english_alone()),
    "kept of an encoder": on_vllm("whisper", kvCache={"reuse": True}),
    "CPU, GPU": on_cpu({}, {"gpu": {"count": 1}}),
    "CPU, split": on_cpu({"parallelism": {"tensor": 2}}, {}),
    "CPU, stages": on_cpu({"parallelism": {"pipeline": 2, "nodes": 2}}, {}),
    "nodes of other sizes": on_vllm(
        "llava", parallelism={"tensor": 4, "nodes": 2}, runtime={"gpu": {"count": 4}}
    ),
    "CPU, share": on_cpu({"kvCache": {"freeGpuMemoryFraction": "0.5"}}, {}),
    "CPU, disaggregated": on_cpu({}, {}, vision=DISAGGREGATED),
    "CPU, too little memory": on_cpu({}, {"resources": {"limits": {"memory": "8Gi"}}}),
    "too little GPU": on_vllm("llava", gpu="l4-24gb", maxBatchSize=64),
    "features of another family": on_vllm("mistral3", vision=DISAGGREGATED),
    "encoders of ONNX": on_vllm("llava", vision={"placement": "Disaggregated"}),
    "encoder without a pod": on_vllm("llava", vision={"engine": "Torch"}),
} | {
    f"argument {name}": on_vllm("llava", "0.26.0", extraArgs=words)
    for name, words in ARGUMENTS.items()
}


def test_what_is_wrong_is_refused_by_name(golden: Golden) -> None:
    found = {
        name: [f"{one.path}: {one.message} ({one.code})" for one in plan.errors]
        or (plan.fit and [plan.fit.message, *map(str, plan.fit.suggestions)])
        for name, plan in WRONG.items()
    }
    golden.check_yaml("refused/vllm.yaml", found)
