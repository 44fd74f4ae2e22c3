"""Seals an engine: writes its manifest, then moves the directory to its final place."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from platform import python_version

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import (
    MANIFEST_NAME,
    EngineFile,
    EngineManifest,
    StepRecord,
    Verification,
)
from mm_runtime.base.durable import sha256, sync_directory, unfinished, write_durably
from mm_runtime.base.engine_python import engine_python
from mm_runtime.base.tool_versions import tool_versions
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.receipt import FetchReceipt, ToolReport
from mm_runtime.errors import EngineCorruptError

log = logging.getLogger(__name__)

VERSIONED = ("multimodal-operator", "torch", "transformers", "onnx", "onnxruntime", "numpy")
"""Distributions whose version goes into the manifest: those that wrote or check its bytes."""


def unsealed(plan: BuildPlan) -> EngineManifest:
    """Return what describes an engine that its own build runs: no file of it is recorded yet."""
    return EngineManifest(
        fingerprint=plan.fingerprint,
        created=datetime.now(UTC),
        plan=plan,
        files=[],
        steps=[],
        versions={},
    )


def seal(
    paths: BuildPaths, plan: BuildPlan, records: Sequence[StepRecord], now: datetime
) -> EngineManifest:
    """Write the manifest into the unfinished engine and move it to its final place.

    Raises:
        EngineCorruptError: a copied file has other bytes than those that fetch read.
    """
    # Of a builder that was killed while it sealed: listed, it would be missing a moment later.
    unfinished(paths.unfinished / MANIFEST_NAME).unlink(missing_ok=True)
    files = [
        EngineFile(
            path=path.relative_to(paths.unfinished).as_posix(),
            size=path.stat().st_size,
            sha256=sha256(path),
        )
        for path in sorted(paths.unfinished.rglob("*"))
        if path.is_file() and path.name != MANIFEST_NAME
    ]
    _compare_with_receipt(paths, files)
    verification = None
    if paths.verification.is_file():
        verification = Verification.from_json(paths.verification.read_bytes())
    tools = None
    if paths.tools.is_file():
        tools = ToolReport.from_json(paths.tools.read_bytes())
    manifest = EngineManifest(
        fingerprint=plan.fingerprint,
        created=now,
        plan=plan,
        files=files,
        steps=list(records),
        versions=_versions() | (tools.versions if tools else {}),
        gpu=tools.gpu if tools else None,
        verification=verification,
    )
    write_durably(paths.unfinished / MANIFEST_NAME, manifest.to_json(indent=1) + "\n")
    paths.unfinished.rename(paths.engine)
    sync_directory(paths.engine.parent)
    log.info("engine %s: %d files, %d bytes", paths.engine, len(files), sum(f.size for f in files))
    return manifest


def _compare_with_receipt(paths: BuildPaths, files: Sequence[EngineFile]) -> None:
    built = {f"engine/{file.path}": file.sha256 for file in files}
    for file in FetchReceipt.from_json(paths.receipt.read_bytes()).files:
        if file.path.startswith("engine/") and built.get(file.path) != file.sha256:
            raise EngineCorruptError(
                f"{paths.work / file.path} is not what was copied: the store returned other bytes"
                " than were written, or the file was changed during the build."
            )


def _versions() -> dict[str, str]:
    # The image holds the code beside its environment, not as an installed distribution.
    return {"python": python_version(), **tool_versions(engine_python(), VERSIONED)}
