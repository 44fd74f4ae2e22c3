"""Quantities and durations mean what Kubernetes and Go mean by them."""

from datetime import timedelta
from decimal import Decimal

import pytest

from mm_api.v1alpha1 import duration, quantity
from support.cases import cases


@cases(
    "text expected",
    {
        "zero": (0, Decimal(0)),
        "integer": (1024, Decimal(1024)),
        "milli": ("500m", Decimal("0.5")),
        "decimal": ("1.5k", Decimal(1500)),
        "binary": ("8Gi", Decimal(8 * 1024**3)),
        "largest-decimal": ("1E", Decimal(10**18)),
        "largest-binary": ("1Ei", Decimal(2**60)),
    },
)
def test_quantity_has_its_value(text: int | str, expected: Decimal) -> None:
    assert quantity.number_of(text) == expected


def test_part_of_a_byte_is_rounded_up() -> None:
    """Bytes are complete: what is requested is never cut."""
    assert quantity.bytes_of("1500m") == 2


@pytest.mark.parametrize("text", ["", "8GB", "-1", "1e3", "Gi", "1.", "1" * 33, "1 Gi", "٣"])
def test_other_text_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity: write a number"):
        quantity.number_of(text)


@cases(
    "text expected",
    {
        "milliseconds": ("500ms", timedelta(milliseconds=500)),
        "minutes": ("5m", timedelta(minutes=5)),
        "two-units": ("1h30m", timedelta(minutes=90)),
        "every-unit": ("1h2m3s4ms", timedelta(0, 3723, 0, 4)),
    },
)
def test_duration_has_its_length(text: str, expected: timedelta) -> None:
    assert duration.parse(text) == expected


@pytest.mark.parametrize("text", ["", "0s", "5", "m", "1m1h", "1.5h", "-1s", "1h0m", "1d"])
def test_other_text_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration above zero: write"):
        duration.parse(text)
