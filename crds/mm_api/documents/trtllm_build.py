"""The commands of TensorRT-LLM's tools that build a model's engines, and for which GPU.

Part of `BuildPlan` (what a build Job runs) and of `ModelPlan` (what `mmctl plan` prints): the two
are compared argument by argument. Paths in commands are relative to TensorRT-LLM's root; the
checkpoint is in a folder of it, and everything is written below `build`.
"""

from collections import Counter
from typing import Literal

from pydantic import Field, field_validator

from mm_api.base import Document

CUSTOM_PRODUCT = "custom"
"""Product of a GPU whose numbers the spec gives without a name: no node is asked for by it."""

EngineName = Literal["llm", "encoder", "decoder", "vision"]


class Command(Document):
    """One program with its arguments; paths are relative to the folder that holds `checkpoint`."""

    argv: list[str] = Field(min_length=1)


class EngineCommand(Command):
    """The command that builds one engine."""

    name: EngineName


class GpuModel(Document):
    """The GPU the plan was made for."""

    product: str
    memory_bytes: int = Field(ge=1)
    compute_capability: str


class LoraAdapter(Document):
    """One adapter that a built engine can be asked to use."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)
    uid: int = Field(ge=0, description="What a request names it by; -1 would be the base model.")
    source: str = Field(
        description="Where the build Job finds it, as `--source` is written: a folder, an archive "
        "of one, hf://REPO@REVISION or s3://BUCKET/PREFIX."
    )
    source_digest: str | None = Field(
        default=None, pattern=r"^sha256:[0-9a-f]{64}$", description="None: not inspected."
    )


class TrtllmBuild(Document):
    """Everything the build Job runs to make engines of TensorRT-LLM."""

    version: str = Field(description="Of TensorRT-LLM; builder and server must both have it.")
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    gpu: GpuModel
    convert: Command
    engines: list[EngineCommand] = Field(min_length=1, description="In the order of the build.")
    lora: list[LoraAdapter] = Field(
        default=[], description="Commands find them in `adapters/NAME`."
    )

    @field_validator("lora")
    @classmethod
    def _are_told_apart(cls, adapters: list[LoraAdapter]) -> list[LoraAdapter]:
        for what, values in (
            ("name", [one.name for one in adapters]),
            ("uid", [one.uid for one in adapters]),
        ):
            twice = [value for value, count in Counter(values).items() if count > 1]
            if twice:
                raise ValueError(
                    f"two LoRA adapters have the {what} {twice[0]}: give each one of its own"
                )
        return adapters

    @property
    def ranks(self) -> int:
        """Return the number of engine files of the language model: one for each GPU."""
        return self.tensor_parallel * self.pipeline_parallel
