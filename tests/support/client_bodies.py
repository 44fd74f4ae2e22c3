"""Bodies as SDKs and other clients write them: what each adds to a plain request, or leaves out.

`client_bodies.yaml` has them, `client_sources.yaml` the file and the version that each was read in.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.images import data_url, encode, plain_image

CHAT, TEXT, RESPONSE = "/v1/chat/completions", "/v1/completions", "/v1/responses"
_PATHS = {"chat": CHAT, "text": TEXT, "response": RESPONSE}
SOURCES = yaml.safe_load(Path(__file__).with_name("client_sources.yaml").read_text())
"""Client -> repository, version and file; a row's client begins with one of them."""

RULE = "rule-"
"""Begins a row that was read in no source: what the rule takes and refuses."""


@dataclass(frozen=True)
class Sent:
    """What a client sends."""

    client: str
    fields: dict[str, Any]
    path: str = CHAT
    refused: str = ""


_WRITTEN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
_URL = data_url(encode(plain_image()))
_WORDS = {"URL": _URL, "BYTES": _URL.partition(",")[2], **_WRITTEN["words"]}


def _spelt(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _spelt(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_spelt(one) for one in value]
    if isinstance(value, str) and value.startswith("$"):
        return _spelt(_WORDS[value[1:]])
    return value


def _sent(client: str, fields: dict[str, Any], path: str = "chat", refused: str = "") -> Sent:
    plain = {"messages": ["$QUESTION"]} if path == "chat" else {}
    return Sent(client, _spelt(plain | fields), _PATHS[path], refused)


HISTORIES, REFUSED, NO_ARGUMENTS, BODIES = (
    tuple(_sent(**row) for row in _WRITTEN[group])
    for group in ("histories", "refused", "no_arguments", "bodies")
)
