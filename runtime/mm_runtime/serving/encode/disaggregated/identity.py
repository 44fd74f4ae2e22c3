"""PURE: whether two pods make the same features of an image."""

import hashlib
import json

from mm_api.documents.engine_manifest import EngineManifest

_VISION, _LANGUAGE_CONFIG = "vision/", "llm/config.json"


def vision_identity(manifest: EngineManifest) -> str:
    """Return 64 hex digits of everything that features depend on.

    The vision engine's files; the language model's configuration, because positions of some
    families come with the features; family and dtype. An engine that was planned again with other
    limits keeps its identity, so pods of both revisions can use one encoder during a rollout.
    """
    engine = manifest.plan.engine
    files = {
        file.path: file.sha256
        for file in manifest.files
        if file.path.startswith(_VISION) or file.path == _LANGUAGE_CONFIG
    }
    content = {"files": files, "family": engine.family, "dtype": engine.dtype}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
