"""LoRA adapters of an engine: part of `BuildPlan`, or of the commands of TensorRT-LLM in it."""

from collections import Counter
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from mm_api.base import Document

ADAPTER_NAME_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"


class LoraAdapter(Document):
    """One adapter that requests to a built engine can name."""

    name: str = Field(pattern=ADAPTER_NAME_PATTERN, max_length=63)
    uid: int = Field(ge=0, description="What a request names it by; -1 would be the base model.")
    source: str = Field(
        description="Where the build Job finds it, as `--source` is written: a folder, an archive "
        "of one, hf://REPO@REVISION or s3://BUCKET/PREFIX."
    )
    source_digest: str | None = Field(
        default=None, pattern=r"^sha256:[0-9a-f]{64}$", description="None: not inspected."
    )


def _without_duplicates(adapters: list[LoraAdapter]) -> list[LoraAdapter]:
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


LoraAdapters = Annotated[list[LoraAdapter], AfterValidator(_without_duplicates)]
"""Adapters with names and uids of their own."""
