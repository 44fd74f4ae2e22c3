"""`spec.engine`: the language-model engine and its limits.

A limit that is absent is planned from the family and the checkpoint; `status.plan.limits` shows the
number that was chosen.
"""

import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from mm_api.backends import BACKENDS, DEFAULT, Name, Traits
from mm_api.base import ApiModel
from mm_api.v1alpha1.model import ModelSource
from mm_api.v1alpha1.names import DnsLabel

Dtype = Literal["Auto", "float16", "bfloat16", "float32"]
Quantization = Literal["FP8", "INT8WeightOnly", "INT4WeightOnly", "INT4AWQ", "SmoothQuant"]

_TOKENS_MAX = 1 << 20
"""1,048,576: above the longest context any listed family has; keeps products inside 64 bits."""

_OPTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OPTIONS_LENGTH = 4096
_OPTIONS_DEPTH = 3
"""Groups of upstream's LlmArgs are one level deep, and a list may lie in one."""


def _bounded(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options, which have no schema of their own."""
    _check_names(options, 1)
    # YAML has values that JSON lacks, such as dates: the plan refuses them by the option's name.
    if len(json.dumps(options, default=str)) > _OPTIONS_LENGTH:
        raise ValueError(f"is longer than {_OPTIONS_LENGTH} characters as JSON: shorten it")
    return options


def _check_names(value: Any, depth: int) -> None:
    if not isinstance(value, dict | list):
        return
    if depth > _OPTIONS_DEPTH:
        raise ValueError(f"is nested more than {_OPTIONS_DEPTH} levels deep: no option is")
    for name in value if isinstance(value, dict) else ():
        if not isinstance(name, str) or not _OPTION_NAME.fullmatch(name):
            raise ValueError(
                f"has the key {str(name)[:64]!r}, and upstream's options are words in lower case "
                "with underscores, groups of them objects: write kv_cache_config: {dtype: ...}"
            )
    for one in value.values() if isinstance(value, dict) else value:
        _check_names(one, depth + 1)


class Parallelism(ApiModel):
    """How many GPUs share one engine."""

    tensor: int = Field(default=1, ge=1, le=64, description="GPUs that split every layer.")
    pipeline: int = Field(default=1, ge=1, le=64, description="GPUs that split the layers.")
    expert: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Of the GPUs that split every layer, how many share its experts among them; "
        "each expert is split over the others. Of models without experts it is 1.",
    )
    nodes: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Pods of a replica, each with an equal part of its GPUs, where one node has "
        "too few; a LeaderWorkerSet keeps them together. Backend VLLM only. It cannot change.",
    )


class KvCache(ApiModel):
    """The key-value cache."""

    free_gpu_memory_fraction: Annotated[
        str, Field(pattern=r"^(Auto|0\.[0-9]{1,4}|1(\.0{1,4})?)$", max_length=8)
    ] = Field(
        default="Auto",
        description='Share of free GPU memory for the cache, as text: "0.85". Auto: what is left '
        "after weights, vision engine, pools and contexts.",
    )
    cross_fraction: Annotated[str, Field(pattern=r"^0\.[0-9]{1,4}$", max_length=8)] | None = Field(
        default=None,
        description='Share of the cache for cross attention, as text: "0.5". Encoder-decoders '
        "only; absent: planned.",
    )
    reuse: bool = Field(
        default=False,
        description="Keep keys and values of earlier requests for prompts that begin alike. "
        "Backend Reference keeps as many as running requests have.",
    )


class Lora(ApiModel):
    """A LoRA adapter."""

    name: DnsLabel = Field(description="Name that clients request.")
    source: ModelSource = Field(description="Where the adapter comes from.")


class EngineSpec(ApiModel):
    """The language-model engine."""

    backend: Name = Field(
        default=DEFAULT,
        description="What runs the language model: TensorRT-LLM engines, TensorRT-LLM on PyTorch, "
        "vLLM as its image is, or the Reference engine on transformers, on the processor or on one "
        "GPU.",
    )
    dtype: Dtype = Field(
        default="Auto", description="Type of weights and activations. Auto: the checkpoint's own."
    )
    max_batch_size: int = Field(
        default=8, ge=1, le=4096, description="Requests that are decoded in one step."
    )
    max_input_len: int | None = Field(
        default=None,
        ge=1,
        le=_TOKENS_MAX,
        description="Longest prompt in tokens, image features included; the decoder's prompt for "
        "encoder-decoders. Absent: planned.",
    )
    max_seq_len: int | None = Field(
        default=None,
        ge=2,
        le=_TOKENS_MAX,
        description="Prompt and answer together, in tokens. Absent: planned.",
    )
    max_num_tokens: int | None = Field(
        default=None,
        ge=1,
        le=_TOKENS_MAX,
        description="Tokens in one step over all requests. Absent: planned.",
    )
    max_beam_width: int = Field(default=1, ge=1, le=64, description="Widest beam search.")
    max_images_per_request: int = Field(
        default=1, ge=0, le=64, description="Images in one request; 0 serves text only."
    )
    max_video_frames: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Frames of one video. Families with video only, and not on backend PyTorch; "
        "absent: planned, on backend VLLM no video.",
    )
    max_multimodal_len: int | None = Field(
        default=None,
        ge=1,
        le=_TOKENS_MAX,
        description="Rows of the prompt table over all requests of a batch; a request whose images "
        "or video become more than its part is refused. Families of LLaVA-NeXT's tiles only; "
        "absent: planned for the largest image.",
    )
    max_encoder_input_len: int | None = Field(
        default=None,
        ge=1,
        le=_TOKENS_MAX,
        description="Longest input of the encoder, in tokens. Encoder-decoders only; absent: "
        "planned.",
    )
    parallelism: Parallelism = Field(
        default=Parallelism(), description="How many GPUs share one engine."
    )
    quantization: Quantization | None = Field(
        default=None,
        description="Quantization of the weights of TensorRT engines. Absent: none.",
    )
    kv_cache: KvCache = Field(default=KvCache(), description="The key-value cache.")
    guided_decoding: Literal["Auto", "Off"] = Field(
        default="Auto",
        description="Answers of a form (response_format, structured_outputs) on backends TensorRT "
        "and PyTorch, by xgrammar. Auto: where the version and the engine can. Off: never.",
    )
    lora: Annotated[list[Lora], Field(max_length=16)] = Field(
        default=[],
        description="LoRA adapters served with the model; requests name one by its place in this "
        "list (lora_task_id 0, 1, ...), on VLLM by its name alone.",
    )
    plugins: Annotated[
        dict[
            Annotated[str, Field(min_length=1, max_length=64)],
            Annotated[str, Field(min_length=1, max_length=64)],
        ],
        Field(max_length=32),
    ] = Field(default={}, description="TensorRT-LLM plugin -> its setting, over the plan's.")
    extra_build_args: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=256)]], Field(max_length=32)
    ] = Field(
        default=[],
        description="Arguments added at the end of trtllm-build's. "
        "--use_implicit_relative_attention is added to the converter's.",
    )
    extra_args: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1024)]], Field(max_length=64)
    ] = Field(
        default=[],
        description="Backend VLLM: arguments added at the end of `vllm serve`'s, a name and its "
        "value as two items. Those of the plan, and those that the image's version lacks, are "
        "refused by name.",
    )
    extra_llm_api_options: Annotated[dict[str, Any], AfterValidator(_bounded)] | None = Field(
        default=None,
        description="Backend PyTorch: options for the file of `trtllm-serve "
        "--extra_llm_api_options`, merged over the plan's. Which ones a version takes, and which "
        "the plan sets itself, is in docs/reference/serve-options.md; any other is refused by "
        "name.",
    )

    @property
    def traits(self) -> Traits:
        return BACKENDS[self.backend]
