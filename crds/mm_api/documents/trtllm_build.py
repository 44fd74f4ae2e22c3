"""The commands of TensorRT-LLM's tools that build a model's engines, and for which GPU.

Part of `BuildPlan` (what a build Job runs) and of `ModelPlan` (what `mmctl plan` prints): the two
are compared argument by argument. Paths in commands are relative to TensorRT-LLM's root; the
checkpoint is in a folder of it, and everything is written below `build`.
"""

from typing import Literal

from pydantic import Field

from mm_api.base import Document, Short
from mm_api.documents.lora_adapter import LoraAdapters

CUSTOM_PRODUCT = "custom"
"""Product of a GPU whose numbers the spec gives without a name: no node is selected by it."""

EngineName = Literal["llm", "encoder", "decoder", "vision"]


class Command(Document):
    """One program with its arguments; paths are relative to the folder that holds `checkpoint`."""

    argv: list[str] = Field(min_length=1)


class EngineCommand(Command):
    """The command that builds one engine."""

    name: EngineName


class GpuModel(Document):
    """The GPU the plan was made for."""

    product: Short = Field(description="As in the node label nvidia.com/gpu.product.")
    memory_bytes: int = Field(ge=1, description="What a process can have of its memory.")
    compute_capability: Short = Field(description="For example 9.0.")


class TrtllmBuild(Document):
    """Everything the build Job runs to make engines of TensorRT-LLM."""

    version: str = Field(description="Of TensorRT-LLM; builder and server must both have it.")
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    gpu: GpuModel
    convert: Command
    engines: list[EngineCommand] = Field(min_length=1, description="In the order of the build.")
    lora: LoraAdapters = Field(default=[], description="Commands find them in `adapters/NAME`.")
    tokenizer_info: Command | None = Field(
        default=None,
        description="Writes the tokenizer's table, without which the server cannot keep answers to "
        "a form. No part of the fingerprint: engines that have none are served as before. None: "
        "none is written.",
    )

    @property
    def ranks(self) -> int:
        """Return the number of engine files of the language model: one for each GPU."""
        return self.tensor_parallel * self.pipeline_parallel
