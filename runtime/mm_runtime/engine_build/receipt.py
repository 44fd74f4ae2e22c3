"""What the fetch step copied: the bridge between the checkpoint's digest and the manifest."""

from pydantic import Field

from mm_api.base import Document
from mm_api.documents.engine_manifest import EngineFile


class FetchReceipt(Document):
    """Files as they were read from the source, by their path in the working directory."""

    source_digest: str = Field(description="Computed over the copies, equal to the plan's.")
    files: list[EngineFile]
