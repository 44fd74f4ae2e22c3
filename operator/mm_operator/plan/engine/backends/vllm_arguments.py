"""Arguments of `vllm serve` that a spec may add: by vLLM's version, and never the plan's own.

`vllm_arguments.json` is written by `tools/vllm_tables.py` from the parser of each version.
"""

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from mm_api.vllm_classes import VERSIONS
from mm_operator.errors import SpecError
from mm_operator.plan.engine.checks import Case, plan_error
from mm_operator.plan.engine.tables import data_of, table

FIELD: Final = "engine.extraArgs"
_SHORT = re.compile(r"-[a-zA-Z]")

OWNED: Final[Mapping[str, str]] = table("vllm_options")["owned"]
"""Argument -> what decides it."""

_UNPLANNED: Final[Mapping[str, str]] = table("vllm_options")["unplanned"]

CACHE_TYPE: Final = "kv-cache-dtype"


@cache
def _table() -> Mapping[str, Any]:
    found: dict[str, dict[str, Any]] = json.loads(data_of("vllm_arguments.json"))
    return found["arguments"]


def nearest_version(version: str) -> str:
    """Return the version whose tables hold for one of the same minor release, or a SpecError."""
    found = [one for one in VERSIONS if one.split(".")[:2] == version.split(".")[:2]]
    if not found:
        raise SpecError(
            "VersionUnknown",
            f"the arguments of vLLM {version} are not known here (known: {VERSIONS[0]} to "
            f"{VERSIONS[-1]}): use an image of one of these, or set this field to the one whose "
            "arguments the image takes",
            "spec.runtime.vllmVersion",
        )
    return found[-1]


def kind_of(name: str, version: str) -> Any:
    """Return the kind or the choices of an argument in a version; None: it has none of the name."""
    place = VERSIONS.index(nearest_version(version))
    for first, last, kind in _table().get(name, ()):
        if VERSIONS.index(first) <= place <= VERSIONS.index(last):
            return kind
    return None


def given(arguments: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Return name without dashes -> values of each argument, in order.

    `--NAME.KEY` sets a key of a value in JSON: it is NAME. Words that belong to no name, and short
    names, have none.
    """
    found: list[tuple[str, list[str]]] = []
    for word in arguments:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            name = name[2:].partition(".")[0].replace("_", "-")
            found.append((name, [value] if equals else []))
        elif found and not _SHORT.match(word):
            found[-1][1].append(word)
        else:
            found.append(("", [word]))
    return found


def check_arguments(now: Case) -> Iterator[SpecError]:
    """Yield an error for each argument that is unknown, the plan's own, or has a wrong value."""
    seen: set[str] = set()
    for name, values in given(now.request.extra_args):
        positive = name.removeprefix("no-")
        toggled = kind_of(positive, now.version) == "toggle"
        known = positive if toggled else name
        if (enabled := known.replace("disable-", "enable-", 1)) in OWNED:  # 0.33 takes both
            known = enabled
        if known in seen and name:
            yield _error(name, "OptionsExclude", "it is given twice: remove one")
        seen.add(known)
        if not name:
            yield _error(values[0], "OptionUnknown", "it is no argument: write --NAME in full")
        elif (why := OWNED.get(known)) is not None:
            yield _error(name, "OptionOfPlan", f"the plan decides it: {why}; remove it here")
        elif (why := _UNPLANNED.get(known)) is not None:
            yield _error(name, "OptionNotPlanned", f"{why}: remove it")
        else:
            yield from _value(now, name, values, toggled=toggled)


def _value(now: Case, name: str, values: list[str], *, toggled: bool) -> Iterator[SpecError]:
    kind = "toggle" if toggled else kind_of(name, now.version)
    if kind is None:
        near = get_close_matches(name, [one for one in _table() if kind_of(one, now.version)], n=3)
        nearest = f" (the nearest are {', '.join(f'--{one}' for one in near)})" if near else ""
        other = [f"{first} to {last}" for first, last, _ in _table().get(name, ())]
        since = f"; {', '.join(other)} have it" if other else ""
        message = f"vLLM {now.version} has no such argument{nearest}{since}: correct or remove it"
        yield _error(name, "OptionUnknown", message)
        return
    expected, fits = _expected(kind, values)
    if not fits:
        shown = " ".join(values)[:80] or "no value"
        yield _error(name, "OptionValue", f"{shown} is not {expected}: set one, or remove it")


def _expected(kind: Any, values: list[str]) -> tuple[str, bool]:
    """Return what an argument takes, and whether it was given that."""
    if kind in ("switch", "toggle"):  # a list of choices has no hash
        return "an argument without a value", not values
    if kind == "list":
        return "one value or several", bool(values)
    (value, *more) = values or [""]
    if isinstance(kind, list):
        return " or ".join(map(str, kind)), not more and value in map(str, kind)
    if kind == "text":
        return "one value", bool(value) and not more
    try:
        number = float(value)
    except ValueError:
        return f"one {kind}", False
    return f"one {kind}", not more and (kind == "number" or number.is_integer())


def _error(name: str, code: str, message: str) -> SpecError:
    return plan_error(FIELD, code, f"{name if name.startswith('-') else f'--{name}'}: {message}")
