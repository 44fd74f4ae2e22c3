"""What is recorded of a revision beside its serving plan: numbers that its pods keep.

Never a pod template: a client that may write ConfigMaps must not decide what runs. A held
revision's template is that of the live Deployment.
"""

from pydantic import Field, ValidationError

from mm_api.base import Document
from mm_operator import names
from mm_operator.model import Snapshot

REVISION_KEY = "revision.json"

LEAST_SECONDS, MOST_SECONDS = 600, 6 * 3600
"""Bounds of a server's start: without what grows with the engine, and the longest that is waited
for."""


class Revision(Document):
    """Decided when the revision was rolled out, and not decided again while it is served."""

    format_version: int = Field(default=1, ge=1, le=1)
    start_seconds: int = Field(ge=LEAST_SECONDS, le=MOST_SECONDS)
    announced: bool


def recorded_revision(snapshot: Snapshot, serving_hash: str) -> Revision | None:
    """Return the record of a revision; None when it is lost, damaged or out of its bounds."""
    config = snapshot.observed.configs.get(names.serving_config(snapshot.name, serving_hash))
    try:
        return Revision.from_json(config.data.get(REVISION_KEY, "")) if config else None
    except ValidationError:
        return None
