"""Which options of `trtllm-serve --extra_llm_api_options` a spec may set: `serve_options.yaml`."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import JsonValue

from mm_operator.plan.engine.tables import table

FIELD: Final = "extraLlmApiOptions"

Option = tuple[str, Any]
"""A dotted name and its value; lists are tuples."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """One option that is merged into the plan's.

    `kind`: switch: true or false, sizes: a list of batch sizes; `names` are values of kind name.
    `since`: the first release that has it. `most`: None: `engine.maxBatchSize`.
    """

    key: str
    kind: Literal["switch", "number", "sizes", "name"]
    since: str = "1.0.0"
    most: int | None = None
    names: Sequence[str] = ()


CACHE_TYPE: Final = "kv_cache_config.dtype"
CHUNKED: Final = "enable_chunked_prefill"

_TABLE: Final = table("serve_options")

ALLOWED: Final = tuple(Allowed(key, **row) for key, row in _TABLE["allowed"].items())

CHUNKED_CLASSES: Final = frozenset(_TABLE["chunkedPrefillClasses"])

OWNED: Final[Mapping[str, str]] = _TABLE["owned"]
"""Options that the plan sets or leaves alone, with the field that decides it."""

NAMED: Final[Mapping[str, str]] = _TABLE["refused"]
"""Options that upstream has and that are refused, with the reason."""


def flattened(options: Mapping[str, Any], above: str = "") -> tuple[Option, ...]:
    """Return options by dotted names, in the order of the names; an empty group is one, too."""
    found: list[Option] = []
    for name, value in sorted(options.items()):
        if isinstance(value, dict) and value:
            found += flattened(value, f"{above}{name}.")
        else:
            found.append((f"{above}{name}", _frozen(value)))
    return tuple(found)


def merged(options: Mapping[str, JsonValue], extra: Sequence[Option]) -> dict[str, JsonValue]:
    """Return the plan's options with the extra ones, which win, at their places."""
    result: dict[str, Any] = deepcopy(dict(options))
    for key, value in extra:
        *groups, name = key.split(".")
        place = result
        for group in groups:
            # The plan may have switched a group off: null.
            place[group] = place.get(group) or {}
            place = place[group]
        place[name] = list(value) if isinstance(value, tuple) else value
    return result


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _frozen(one)) for name, one in value.items())
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
