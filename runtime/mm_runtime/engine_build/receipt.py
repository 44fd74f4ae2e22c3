"""What the fetch step copied, and what check-tools found: both go into the manifest."""

from pydantic import Field

from mm_api.base import Document
from mm_api.documents.engine_manifest import EngineFile, GpuIdentity


class FetchReceipt(Document):
    """Files as they were read from the source, by their path in the working directory."""

    source_digest: str = Field(description="Computed over the copies, equal to the plan's.")
    files: list[EngineFile]


class ToolReport(Document):
    """Versions of the tools that make the engines, and the GPU they run on."""

    versions: dict[str, str]
    gpu: GpuIdentity
