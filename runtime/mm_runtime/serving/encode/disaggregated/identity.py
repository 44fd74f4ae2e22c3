"""PURE: whether two pods make the same features of an image."""

import hashlib
import json

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.trtllm_layout import VISION_FOLDERS


def vision_identity(manifest: EngineManifest) -> str:
    """Return 64 hex digits of everything that features depend on.

    The vision engine's files; the language model's configuration, because positions of some
    families come with the features; family and dtype. An engine that was planned again with other
    limits keeps its identity, so pods of both revisions can use one encoder during a rollout.
    """
    engine = manifest.plan.engine
    config = f"{'processor' if engine.traits.builds_engines else 'llm'}/config.json"
    files = {
        file.path: file.sha256
        for file in manifest.files
        if file.path.partition("/")[0] in VISION_FOLDERS or file.path == config
    }
    content = {"files": files, "family": engine.family, "dtype": engine.dtype}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
