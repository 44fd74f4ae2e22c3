"""Content keys: equal content has an equal digest on every machine and under every Python."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from mm_api.base import ApiModel


def canonical_json(value: Mapping[str, Any]) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a value's canonical JSON, 64 hex digits."""
    return sha256(canonical_json(value).encode()).hexdigest()


def plain(part: ApiModel) -> dict[str, Any]:
    """Return a part of the API or a document as JSON values, without fields that are None."""
    return part.model_dump(mode="json", by_alias=True, exclude_none=True)


def stated(part: ApiModel) -> dict[str, Any]:
    """Return what a part of the spec says beyond its defaults.

    For digests of specs: a field that a new version of the API adds must not change them.
    """
    return part.model_dump(mode="json", by_alias=True, exclude_defaults=True)
