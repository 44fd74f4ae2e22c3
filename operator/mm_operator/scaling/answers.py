"""What Prometheus answered, checked: samples with finite values, or why there are none. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NO_VALUE = (KeyError, TypeError, ValueError, IndexError, OverflowError)
"""What reading a value raises where a document has another shape, or a number of 400 digits."""


class MetricsError(Exception):
    """There is no usable answer; the text is a sentence for people, the same for equal causes."""


class RefusedQueryError(MetricsError):
    """The query is wrong, which each replica of Prometheus says, and its author may read."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of an instant vector."""

    labels: Mapping[str, str]
    value: float


def read_vector(document: Any) -> list[Sample]:
    """Return the samples of an instant query; NaN and infinities are left out.

    Raises:
        MetricsError: the document is not an answer of Prometheus, or no vector.
    """
    kind, result = _result(document)
    if kind != "vector" or not isinstance(result, list):
        raise MetricsError("Prometheus did not return the requested vector")
    try:
        found = [Sample(one["metric"], float(one["value"][1])) for one in result]
    except _NO_VALUE as error:
        raise MetricsError("Prometheus answered a vector without values") from error
    return [one for one in found if math.isfinite(one.value)]


def is_answer(document: Any) -> bool:
    """Return whether a document has the form of an answer of Prometheus, an error included."""
    if not isinstance(document, Mapping):
        return False
    if document.get("status") == "error":
        return isinstance(document.get("errorType"), str)
    data = document.get("data")
    return isinstance(data, Mapping) and "resultType" in data and "result" in data


def error_text(document: Any) -> str:
    if isinstance(document, Mapping) and document.get("status") == "error":
        return " ".join(str(document.get("error", "")).split())[:300]
    return ""


def _result(document: Any) -> tuple[str, Any]:
    if refusal := error_text(document):
        raise MetricsError(f"Prometheus refused the query: {refusal}")
    try:
        data = document["data"]
        return str(data["resultType"]), data["result"]
    except (KeyError, TypeError) as error:
        raise MetricsError("the answer is not one of Prometheus: check the address") from error
