"""Reads, verifies and writes the manifest: the one file that makes a directory an engine."""

import hashlib
import logging
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from platform import python_version

from pydantic import ValidationError

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import (
    MANIFEST_NAME,
    EngineFile,
    EngineManifest,
    GoldenPrompt,
    StepRecord,
    Verification,
)
from mm_runtime.build.durable import sha256, sync_directory, unfinished, write_durably
from mm_runtime.build.places import Places
from mm_runtime.build.receipt import FetchReceipt
from mm_runtime.build.tool_report import ToolReport
from mm_runtime.errors import EngineCorruptError

log = logging.getLogger(__name__)

VERSIONED = ("multimodal-operator", "torch", "transformers", "onnx", "onnxruntime", "numpy")
"""Distributions whose version goes into the manifest: those that wrote or check its bytes."""


def read(path: Path, expected: str | None = None) -> EngineManifest:
    """Return a manifest.

    Args:
        path: where it is.
        expected: its SHA-256 as the build recorded it, 64 hex digits; None: not compared.

    Raises:
        EngineCorruptError: missing, not JSON, of another format version, or not the recorded one.
    """
    try:
        content = path.read_bytes()
        compare_recorded(content, expected, str(path))
        return EngineManifest.from_json(content)
    except FileNotFoundError as error:
        raise EngineCorruptError(
            f"{path} does not exist: the build of this engine has not finished, or the store is not"
            " the one it was built into."
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise EngineCorruptError(
            f"{path} is damaged or of another version: {where}: {first['msg']}. The"
            " operator builds the engine again."
        ) from error


def compare_recorded(content: bytes, expected: str | None, where: str) -> None:
    """Compare a manifest with the digest that its build recorded; None: nothing was recorded.

    Raises:
        EngineCorruptError: the store holds another engine under this fingerprint.
    """
    found = hashlib.sha256(content).hexdigest()
    if expected is not None and found != expected:
        raise EngineCorruptError(
            f"{where} is not the manifest of the recorded build: sha256 {found}; expected"
            f" {expected}. The engine was replaced in the store; the operator verifies it anew."
        )


def verify(
    directory: Path, manifest: EngineManifest, files: Sequence[EngineFile] | None = None
) -> None:
    """Compare files of an engine with its manifest: existence and size of all, then digests.

    Args:
        directory: of the engine.
        manifest: what it should be.
        files: those of the manifest that count; None: all.

    Raises:
        EngineCorruptError: names the first file that differs, and how.
    """
    advice = "The operator builds the engine again."
    compared = manifest.files if files is None else files
    for file in compared:
        path = directory / file.path
        if not path.is_file():
            raise EngineCorruptError(f"{path} is missing. {advice}")
        size = path.stat().st_size
        if size != file.size:
            raise EngineCorruptError(f"{path} has {size} bytes; expected {file.size}. {advice}")
    for file in compared:
        found = sha256(directory / file.path)
        if found != file.sha256:
            raise EngineCorruptError(
                f"{directory / file.path} is damaged: sha256 {found}; expected {file.sha256}."
                f" {advice}"
            )


def seal(
    places: Places, plan: BuildPlan, records: Sequence[StepRecord], now: datetime
) -> EngineManifest:
    """Write the manifest into the unfinished engine and move it to its final place.

    Raises:
        EngineCorruptError: a copied file has other bytes than those that fetch read.
    """
    # Of a builder that was killed while it sealed: listed, it would be missing a moment later.
    unfinished(places.unfinished / MANIFEST_NAME).unlink(missing_ok=True)
    files = [
        EngineFile(
            path=path.relative_to(places.unfinished).as_posix(),
            size=path.stat().st_size,
            sha256=sha256(path),
        )
        for path in sorted(places.unfinished.rglob("*"))
        if path.is_file() and path.name != MANIFEST_NAME
    ]
    _compare_with_receipt(places, files)
    verification = None
    if places.verification.is_file():
        verification = Verification.from_json(places.verification.read_bytes())
    golden = None
    if places.golden.is_file():
        golden = GoldenPrompt.from_json(places.golden.read_bytes())
    tools = None
    if places.tools.is_file():
        tools = ToolReport.from_json(places.tools.read_bytes())
    manifest = EngineManifest(
        fingerprint=plan.fingerprint,
        created=now,
        plan=plan,
        files=files,
        steps=list(records),
        versions=_versions() | (tools.versions if tools else {}),
        gpu=tools.gpu if tools else None,
        verification=verification,
        golden=golden,
    )
    write_durably(places.unfinished / MANIFEST_NAME, manifest.to_json(indent=1) + "\n")
    places.unfinished.rename(places.engine)
    sync_directory(places.engine.parent)
    log.info("engine %s: %d files, %d bytes", places.engine, len(files), sum(f.size for f in files))
    return manifest


def _compare_with_receipt(places: Places, files: Sequence[EngineFile]) -> None:
    built = {f"engine/{file.path}": file.sha256 for file in files}
    for file in FetchReceipt.from_json(places.receipt.read_bytes()).files:
        if file.path.startswith("engine/") and built.get(file.path) != file.sha256:
            raise EngineCorruptError(
                f"{places.work / file.path} is not what was copied: the store returned other bytes"
                " than were written, or somebody changed it during the build."
            )


def _versions() -> dict[str, str]:
    found = {"python": python_version()}
    for name in VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            # The image holds the code beside its environment, not as an installed distribution.
            continue
    return found
