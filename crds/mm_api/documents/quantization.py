"""How a staged checkpoint is quantized before TensorRT-LLM on PyTorch serves it.

Part of `BuildPlan` (what a build Job runs); `mmctl plan -o commands` prints the same command. Paths
are relative to a folder where `checkpoint` is the checkpoint; the result is written beside it.
"""

from typing import Literal

from pydantic import Field

from mm_api.base import Document
from mm_api.documents.trtllm_build import Command

HF_QUANT_CONFIG = "hf_quant_config.json"
"""Says how weights are stored; read by trtllm-serve (tensorrt_llm/_torch/model_config.py)."""


class StagedQuantization(Document):
    """One run of the quantizer."""

    version: str = Field(
        description="Of TensorRT-LLM: its images hold the Model-Optimizer that it was tested with."
    )
    weights: Literal["FP8"] = Field(description="`quant_algo` of hf_quant_config.json.")
    kv_cache: Literal["FP8"] = Field(description="`kv_cache_quant_algo` of the same file.")
    command: Command
