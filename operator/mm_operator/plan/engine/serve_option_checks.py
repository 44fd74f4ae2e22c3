"""Options of trtllm-serve that a spec may not set: codes, the option's place, and ways out."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from mm_operator.errors import SpecError
from mm_operator.plan.engine.checks import Case, plan_error
from mm_operator.plan.engine.dtypes import FP8_SINCE, capability
from mm_operator.plan.engine.serve_options import (
    ALLOWED,
    CACHE_TYPE,
    CHUNKED,
    CHUNKED_CLASSES,
    FIELD,
    NAMED,
    OWNED,
    Allowed,
)
from mm_operator.plan.engine.tables import version_of

_BY_KEY = {row.key: row for row in ALLOWED}
_GRAPHS = "cuda_graph_config."
_SIZES, _LARGEST = f"{_GRAPHS}batch_sizes", f"{_GRAPHS}max_batch_size"
_PARTIAL = ("kv_cache_config.enable_partial_reuse", "kv_cache_config.copy_on_partial_reuse")


def check_options(now: Case) -> Iterator[SpecError]:
    """Yield an error for each option that is the plan's own, not planned for, unknown or wrong."""
    given = dict(now.request.serve_options)
    refused: set[str] = set()
    for key, value in given.items():
        row = _BY_KEY.get(key)
        if row is not None:
            yield from _allowed(now, row, value)
            continue
        name = _listed(key)
        if name not in refused:
            refused.add(name)
            yield _refusal(name)
    if _SIZES in given and _LARGEST in given:
        yield _error(
            _LARGEST,
            "OptionsExclude",
            f"it generates the sizes that {_SIZES} lists, and trtllm-serve takes one of both: "
            "remove one",
        )


def _listed(key: str) -> str:
    parts = key.split(".")
    names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return next((name for name in names if name in OWNED or name in NAMED), key)


def _refusal(name: str) -> SpecError:
    if name in OWNED:
        return _error(
            name,
            "OptionOfPlan",
            f"the plan decides it, by spec.{OWNED[name]}: remove it here, and set that field",
        )
    if name in NAMED:
        return _error(name, "OptionNotPlanned", f"{NAMED[name]}: remove it")
    group = [key for key in _BY_KEY if key.startswith(f"{name}.")]
    if group:
        return _error(
            name,
            "OptionValue",
            f"it is a group of options, an object with {', '.join(group)}: name one, or remove it",
        )
    near = get_close_matches(name, [*_BY_KEY, *OWNED, *NAMED], n=3)
    nearest = f"the nearest are {', '.join(near)}; " if near else ""
    return _error(
        name,
        "OptionUnknown",
        f"this version knows no such option ({nearest}it merges {', '.join(_BY_KEY)}): "
        "correct it, or remove it",
    )


def _allowed(now: Case, row: Allowed, value: Any) -> Iterator[SpecError]:
    if version_of(now.version) < version_of(row.since):
        yield _error(
            row.key,
            "OptionTooNew",
            f"TensorRT-LLM has it since {row.since}, and the image has {now.version}: remove it, "
            "or use a newer image",
        )
    largest = now.request.max_batch_size if row.most is None else row.most
    expected = _expected(row, largest)
    if not _fits(row, value, largest):
        yield _error(
            row.key, "OptionValue", f"{_shown(value)} is not {expected}: set one, or remove it"
        )
    if row.key == CACHE_TYPE and value == "fp8":
        yield from _cache_type(now)
    if row.key == CHUNKED and value is True:
        yield from _chunked(now)
    if row.key in _PARTIAL and not now.request.reuse:
        yield _error(
            row.key,
            "OptionWithoutEffect",
            "it is about blocks of earlier requests, and none are kept: set engine.kvCache.reuse "
            "to true, or remove it",
        )


def _cache_type(now: Case) -> Iterator[SpecError]:
    """Yield an error for a cache of FP8 on a GPU that has no such numbers."""
    if capability(now.gpu) < FP8_SINCE:
        least = ".".join(map(str, FP8_SINCE))
        yield _error(
            CACHE_TYPE,
            "Fp8NeedsGpu",
            f"FP8 needs compute capability {least}, and {now.gpu.product} has "
            f"{now.gpu.compute_capability}: set auto, or use another GPU",
        )


def _chunked(now: Case) -> Iterator[SpecError]:
    """Yield errors for prompts in parts where a class or an image does not allow it."""
    if now.facts.architecture not in CHUNKED_CLASSES:
        yield _error(
            CHUNKED,
            "ChunkedPrefill",
            f"upstream's table does not have it for {now.facts.architecture} (it has it for "
            f"{', '.join(sorted(CHUNKED_CLASSES))}): remove it",
        )
    elif now.request.max_images:
        yield _error(
            CHUNKED,
            "ChunkedPrefill",
            "an image's features may lie in two parts of a prompt, and this version knows of no "
            "release that joins them: remove it, or set engine.maxImagesPerRequest to 0",
        )


def _expected(row: Allowed, largest: int) -> str:
    limit = f"1 to {largest}" + (" (engine.maxBatchSize)" if row.most is None else "")
    match row.kind:
        case "switch":
            return "true or false"
        case "number":
            return f"an integer from {limit}"
        case "sizes":
            return f"a list of different integers from {limit}"
        case "name":
            return " or ".join(row.names)


def _fits(row: Allowed, value: Any, largest: int) -> bool:
    match row.kind:
        case "switch":
            return isinstance(value, bool)
        case "number":
            return _counts(value, largest)
        case "sizes":
            listed = isinstance(value, tuple) and bool(value)
            return (
                listed
                and len({*value}) == len(value)
                and all(_counts(one, largest) for one in value)
            )
        case "name":
            return value in row.names


def _counts(value: Any, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= largest


def _shown(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)[:80]


def _error(key: str, code: str, message: str) -> SpecError:
    return plan_error(f"engine.{FIELD}.{key}", code, f"{key}: {message}")
