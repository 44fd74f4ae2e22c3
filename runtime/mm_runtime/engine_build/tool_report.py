"""What check-tools found: goes into the manifest once the engines are built."""

from mm_api.base import Document
from mm_api.documents.engine_manifest import GpuIdentity


class ToolReport(Document):
    """Versions of the tools that make the engines, and the GPU they run on."""

    versions: dict[str, str]
    gpu: GpuIdentity
