"""Facts of a checkpoint for planning without a cluster, from the inspection that Jobs run.

A folder with the configuration files alone is enough for `--facts`. The number of weights then
comes from the index, or from the dimensions where there is no index.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mm_api.checkpoint.quantized import HF_QUANT_CONFIG
from mm_api.checkpoint.values import stated_dtype
from mm_api.checkpoint.weight_files import INDEX, SUFFIXES
from mm_api.documents.model_facts import InspectReason, ModelFacts
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_ctl.documents import UsageError
from mm_operator.errors import ClusterError
from mm_operator.plan.engine.weights import text_parameters
from mm_runtime.errors import InspectInterruptedError, InspectRefusedError, RuntimeCommandError
from mm_runtime.inspect.checkpoint import Description, InspectOptions, describe, refusing
from mm_runtime.inspect.small_files import read_optional
from mm_runtime.inspect.source import inspect_source
from mm_runtime.sources.identity import source_digest

HUB = "https://huggingface.co"
_ITEM_BYTES = {"float64": 8, **DTYPE_BYTES}
"""Size of one number, by the type that a checkpoint is stored in."""


def facts_of_checkpoint(
    place: str,
    options: InspectOptions,
    *,
    mirror: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> ModelFacts:
    """Return what the inspect Job would say of a checkpoint; UsageError: refused, or unreadable.

    `place`: a folder, `hf://ORG/NAME@REVISION` or `s3://BUCKET/PREFIX`. `mirror`: of the Hub, that
    the spec names. The environment's comes first: a mirror within the cluster may not be reached
    from here. `environment`: endpoints, keys, tokens; None: this process's.
    """
    variables = dict(os.environ if environment is None else environment)
    if mirror and not variables.get("HF_ENDPOINT"):
        variables["HF_ENDPOINT"] = mirror
        if mirror.rstrip("/") != HUB:
            variables.pop("HF_TOKEN", None)  # the author of a spec must not get it
    with _usage(place):
        return inspect_source(place, options, variables)


def facts_of_folder(folder: Path, options: InspectOptions) -> ModelFacts:
    """Return the facts of a folder's configurations, or of all its files; UsageError: refused."""
    if any(path.suffix in SUFFIXES for path in folder.rglob("*")):
        return facts_of_checkpoint(str(folder), options)
    with _usage(str(folder)), refusing():
        return _estimated(folder, describe(folder, options))


@contextmanager
def _usage(place: str) -> Iterator[None]:
    try:
        yield
    except InspectInterruptedError as error:
        said = f"{error} Without a network, give a folder of its small files: --facts"
        raise ClusterError(0, place, "", said) from error
    except (RuntimeCommandError, OSError) as error:
        raise UsageError(f"{place}: {error}{_hint(place, error)}") from error


def _hint(place: str, error: Exception) -> str:
    """Return what to do on this machine, where a Job would have other means."""
    reason = error.reason if isinstance(error, InspectRefusedError) else None
    if reason is InspectReason.WEIGHTS_MISSING:
        return " To plan from configurations alone, give the folder as --facts."
    if reason in {InspectReason.SOURCE_DENIED, InspectReason.SOURCE_NOT_FOUND}:
        scheme = place.partition("://")[0]
        repository = re.fullmatch(r"[\w.-]*\w/[\w.-]+", place)
        return _MEANS.get(scheme, f" Of the Hub it is hf://{place}." if repository else "")
    return ""


_MEANS = {
    "hf": " Here the token is that of HF_TOKEN, for the Hub or the HF_ENDPOINT beside it.",
    "s3": " Here the keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
}
"""Scheme of an address -> where mmctl takes its credentials from."""


def _estimated(folder: Path, found: Description) -> ModelFacts:
    """Return facts without a look at weights or tokenizer."""
    family, dimensions = FAMILIES[found.family], found.dimensions
    if (folder / HF_QUANT_CONFIG).is_file():
        raise UsageError(
            f"{folder} has {HF_QUANT_CONFIG} and no *.safetensors: which matrices are quantized is "
            "known from their headers only; add them"
        )
    stated = stated_dtype(found.config)
    dtype = stated if stated in _ITEM_BYTES else "float32"
    facts = ModelFacts(
        family=found.family,
        architecture=found.architecture,
        dtype=dtype,
        source_digest=source_digest(folder),
        weight_format="safetensors",
        weight_bytes=1,
        parameters=1,
        custom_code=found.custom_code,
        image_token_id=dimensions.image_token_id,
        text=dimensions.text,
        vision=dimensions.vision,
        encoder=dimensions.encoder,
        audio=dimensions.audio,
    )
    parameters = _indexed(folder, dtype) or _computed(folder, facts, family)
    return facts.model_copy(
        update={
            "parameters": parameters,
            "weight_bytes": parameters * _ITEM_BYTES[dtype],
        }
    )


def _indexed(folder: Path, dtype: str) -> int | None:
    metadata = read_optional(folder / INDEX).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(total) // _ITEM_BYTES[dtype] if total else None


def _computed(folder: Path, facts: ModelFacts, family: Family) -> int:
    """Return the number of weights that the dimensions make."""
    total = text_parameters(facts, family)
    if facts.vision is None and facts.audio is None:
        return total
    if family.checkpoint.vision_parameters is None or facts.vision is None:
        raise UsageError(
            f"{folder} has neither weights nor {INDEX}, and the tower of {family.name} "
            f"cannot be counted from its configuration: add {INDEX}"
        )
    return total + family.checkpoint.vision_parameters(facts.vision, facts.text)
