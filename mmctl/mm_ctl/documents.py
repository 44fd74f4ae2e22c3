"""Reading MultimodalModel documents from files, for the commands that take `-f`."""

import sys
from pathlib import Path
from typing import Any

import yaml

from mm_api import labels
from mm_ctl.kubectl_yaml import load_all

_LISTS = ("List", f"{labels.KIND}List")
_SHOWN, _SHOWN_KINDS = 40, 5
"""Characters of a kind, and kinds, in a message."""


class UsageError(Exception):
    """The command cannot be carried out; the message says what to do instead."""


def read_text(name: str) -> str:
    """Return a file's text, UTF-8; `-` is standard input. UsageError: it cannot be read."""
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {name}: {error}") from error


def read_models(name: str) -> list[dict[str, Any]]:
    """Return the MultimodalModels of a YAML file and of its lists; UsageError: there is none."""
    try:
        found = load_all(read_text(name))
    except yaml.YAMLError as error:
        raise UsageError(f"{name} is not YAML: {error}") from error
    found = [item for document in found for item in _items(document)]
    models = [item for item in found if item.get("kind") == labels.KIND]
    if not models:
        kinds = sorted({str(item.get("kind", "(no kind)"))[:_SHOWN] for item in found})
        others = f", but {', '.join(kinds[:_SHOWN_KINDS])}" if kinds else ""
        raise UsageError(f"{name} holds no document of kind {labels.KIND}{others}")
    return models


def _items(document: object) -> list[dict[str, Any]]:
    """Return a document, or those of a list as `kubectl get -o yaml` writes it."""
    if not isinstance(document, dict):
        return []
    items = document.get("items")
    if document.get("kind") in _LISTS and isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
    return [document]


def read_model(name: str) -> dict[str, Any]:
    """Return the one MultimodalModel of a YAML file; UsageError: no YAML, none, or several."""
    documents = read_models(name)
    if len(documents) > 1:
        raise UsageError(f"{name} holds {len(documents)} resources: give one")
    return documents[0]


def name_of(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "(no name)")) if isinstance(metadata, dict) else "(no name)"
