"""Reading MultimodalModel documents from files, for the commands that take `-f`.

kubectl reads YAML 1.1 with go-yaml 2 (its resolve.go): `y` and `n` are booleans there and text to
PyYAML; `12:30` and `2026-01-02` are text there, and a number and a date to PyYAML.
"""

import re
import sys
from collections.abc import Hashable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import yaml

from mm_api import labels


def load_all(text: str) -> list[Any]:
    """Return a text's documents; yaml.YAMLError: it is no YAML, or a mapping has a key twice."""
    return list(yaml.load_all(text, Loader=_Loader))


class _Loader(yaml.SafeLoader):
    """A SafeLoader with the implicit types of go-yaml 2, which refuses a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 (PyYAML's)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):  # {{ .Values.x }} of a chart
                why = "a key is not text: is this a template? Render it first"
            elif (key.tag, key.value) in seen:
                why = f"the mapping has the key {key.value} twice"
            else:
                seen.add((key.tag, key.value))
                continue
            raise yaml.constructor.ConstructorError(None, None, why, key.start_mark)
        return super().construct_mapping(node, deep)


_KEPT = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
_WORDS = {
    spelt: means
    for means, names in ((True, ("y", "yes", "on", "true")), (False, ("n", "no", "off", "false")))
    for name in names
    for spelt in (name, name.capitalize(), name.upper())
}
_Loader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] in _KEPT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(rf"^(?:{'|'.join(_WORDS)})$"), list("yYnNtTfFoO")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)
_Loader.add_constructor("tag:yaml.org,2002:bool", lambda _, node: _WORDS[node.value])


_LISTS = ("List", f"{labels.KIND}List")
_MOST = 3 << 20
"""Characters of a file: what an API server reads at the most."""

_SHOWN, _SHOWN_KINDS = 40, 5
"""Characters of a kind, and kinds, in a message."""


class UsageError(Exception):
    """The command cannot be carried out; the message says what to do instead."""


def http_url(option: str, text: str) -> str:
    """Return a URL as given; UsageError: its scheme is missing, or another one."""
    if not text.startswith(("http://", "https://")):
        raise UsageError(f"{option} {text}: write http://HOST:PORT or https://HOST")
    return text


def read_text(name: str) -> str:
    """Return a file's text, UTF-8; `-` is standard input. UsageError: it cannot be read."""
    try:
        with nullcontext(sys.stdin) if name == "-" else Path(name).open(encoding="utf-8") as file:
            text = file.read(_MOST + 1)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not text in UTF-8: {error.reason}") from error
    if len(text) > _MOST:
        raise UsageError(f"{name} is longer than {_MOST:,} characters: give a manifest")
    return text


def read_models(name: str) -> list[dict[str, Any]]:
    """Return the MultimodalModels of a YAML file and of its lists; UsageError: there is none."""
    try:
        found = load_all(read_text(name))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
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
