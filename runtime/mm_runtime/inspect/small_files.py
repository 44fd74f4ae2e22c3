"""Reading JSON files of a checkpoint: every way in which one can be wrong becomes a refusal."""

import codecs
import json
from pathlib import Path
from typing import Any, TypeAlias

from mm_api.documents.model_facts import InspectReason
from mm_api.sentences import a
from mm_runtime.base.containment import open_contained
from mm_runtime.errors import InspectRefusedError

JsonObject: TypeAlias = dict[str, Any]

LIMIT_BYTES = 64 * 1024 * 1024
"""Largest JSON file that is read. The biggest index files of public checkpoints are about 10 MB;
the inspect Job has a few hundred MB."""

SHOWN_ENTRIES = 12
"""Names listed in a message about a missing file: enough to see a wrong directory."""


def check_directory(source: Path) -> None:
    """Refuse a source that is not a readable directory, and show what lies beside it."""
    try:
        if source.is_dir():
            next(source.iterdir(), None)
            return
    except PermissionError as error:
        raise InspectRefusedError(
            InspectReason.SOURCE_NOT_FOUND,
            f"{source} cannot be read ({error.strerror}): make the checkpoint readable"
            " (chmod -R a+rX) or set fsGroup on the volume.",
        ) from error
    if source.exists():
        raise InspectRefusedError(
            InspectReason.SOURCE_NOT_FOUND,
            f"{source} is a file; expected the directory that holds config.json and the weights.",
        )
    parent = next(folder for folder in source.parents if folder.is_dir())
    raise InspectRefusedError(
        InspectReason.SOURCE_NOT_FOUND,
        f"{source} does not exist. {parent} holds: {listing(parent)}. Set"
        " spec.model.source.persistentVolumeClaim.path to the directory with config.json.",
    )


def listing(directory: Path) -> str:
    """Return the first names in a directory, directories with a slash, for a message."""
    try:
        names = sorted(
            entry.name + ("/" if entry.is_dir() else "")
            for entry in directory.iterdir()
            if not entry.name.startswith(".")
        )
    except OSError as error:
        return f"(cannot be listed: {error.strerror})"
    shown = ", ".join(names[:SHOWN_ENTRIES]) or "nothing"
    hidden = len(names) - SHOWN_ENTRIES
    return f"{shown} and {hidden} more" if hidden > 0 else shown


def read_config(source: Path) -> JsonObject:
    """Return config.json, or refuse with `ConfigMissing` or `ConfigInvalid`."""
    path = source / "config.json"
    if not path.is_file():
        advice = "point the source at the directory that holds config.json"
        if (source / "model.pt").is_file():
            advice = "name FairSeq's archive, of which model.pt is, as spec.model.source.archive"
        raise InspectRefusedError(
            InspectReason.CONFIG_MISSING,
            f"{path} does not exist; {source} holds: {listing(source)}. Expected a Hugging Face"
            f" checkpoint: {advice}.",
        )
    return read_object(path, InspectReason.CONFIG_INVALID)


def read_optional(path: Path) -> JsonObject:
    """Return a JSON object, or an empty one without the file; `ConfigInvalid` refuses another."""
    return read_object(path, InspectReason.CONFIG_INVALID) if path.is_file() else {}


def read_object(path: Path, reason: InspectReason) -> JsonObject:
    """Parse a JSON file whose top level must be an object.

    Raises:
        InspectRefusedError: as `read_text`; truncated, not JSON, nested too deeply, a number that
            is none, no object.
    """
    text = read_text(path, reason)
    try:
        value = json.loads(text, parse_constant=_number)
    except json.JSONDecodeError as error:
        cut = f"line {error.lineno}, column {error.colno}" if text else "it is empty"
        ends = " (the file ends there: truncated?)" if 0 < len(text) <= error.pos + 1 else ""
        raise InspectRefusedError(
            reason,
            f"{path.name} is not valid JSON: {error.msg}, {cut}{ends};"
            f" {path.stat().st_size} bytes. Copy the file again.",
        ) from error
    except RecursionError as error:
        raise InspectRefusedError(
            reason, f"{path.name} is nested too deeply to be a configuration."
        ) from error
    except _NoNumberError as error:
        raise InspectRefusedError(
            reason, f"{path.name} holds NaN, which is no number. Copy the file again."
        ) from error
    if not isinstance(value, dict):
        raise InspectRefusedError(
            reason, f"{path.name} holds {a(type(value).__name__)}; expected a JSON object."
        )
    return value


def read_text(path: Path, reason: InspectReason) -> str:
    """Return a small file that is text.

    Raises:
        InspectRefusedError: too big, not UTF-8, with a byte-order mark, or another file.
    """
    size = path.stat().st_size
    if size > LIMIT_BYTES:
        raise InspectRefusedError(
            reason, f"{path.name} has {size} bytes; expected at most {LIMIT_BYTES}: not a config."
        )
    with open_contained(path) as file:
        content = file.read(LIMIT_BYTES + 1)
    if what := other_content(content):
        raise InspectRefusedError(reason, f"{path.name} is {what}")
    if content.startswith(codecs.BOM_UTF8):
        raise InspectRefusedError(
            reason,
            f"{path.name} begins with a byte-order mark, which transformers does not read: save it"
            " as UTF-8 without one.",
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InspectRefusedError(
            reason,
            f"{path.name} is not text: byte {error.start} is not UTF-8. Copy the file again.",
        ) from error


def other_content(beginning: bytes) -> str:
    """Return what a file is, and what to do, where a download left something else in its place.

    Empty: it is nothing of the kind.
    """
    if beginning.startswith(b"version https://git-lfs.github.com/spec/"):
        return (
            "a pointer of Git LFS and not the file itself: run `git lfs pull` where it was cloned,"
            " or download it with `hf download`."
        )
    if beginning[:256].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return (
            "a page of HTML and not the file itself: the download was answered by a page, for"
            " example one to sign in. Download it again, with a token where the model is gated."
        )
    return ""


class _NoNumberError(Exception):
    """A configuration states NaN."""


def _number(text: str) -> float:
    if text == "NaN":
        raise _NoNumberError
    return float(text)
