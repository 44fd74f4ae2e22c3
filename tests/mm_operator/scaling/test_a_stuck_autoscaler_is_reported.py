"""When the object that should move replicas cannot, the model's own status says so."""

from typing import Any

import pytest

from mm_operator.scaling.movers import PATIENCE_SECONDS, trouble

MADE = "2026-01-01T00:00:00Z"
LATER = 1767225600.0 + PATIENCE_SECONDS


def scaled(**condition: Any) -> dict[str, Any]:
    """Return a ScaledObject with one condition."""
    metadata = {"name": "llava", "creationTimestamp": MADE}
    return {"metadata": metadata, "status": {"conditions": [condition]}}


FALLEN_BACK = scaled(type="Fallback", status="True", reason="FallbackExists")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            FALLEN_BACK,
            "Fallback is True, FallbackExists), nothing is lowered",
            id="keda-falls-back",
        ),
        pytest.param(
            scaled(type="Ready", status="False"),
            "see kubectl describe scaledobject llava",
            id="keda-refuses",
        ),
    ],
)
def test_it_is_a_sentence(found: dict[str, Any], expected: str) -> None:
    """The object, its condition and where to look are named."""
    assert expected in trouble(found, LATER)


@pytest.mark.parametrize(
    ("found", "now"),
    [
        pytest.param(FALLEN_BACK, LATER - 1, id="just-made"),
        pytest.param(scaled(type="Ready", status="True"), LATER, id="keda-is-well"),
        pytest.param(scaled(type="Active", status="False"), LATER, id="of-no-interest"),
        pytest.param({**FALLEN_BACK, "status": None}, LATER, id="no-status"),
    ],
)
def test_what_is_well_is_silent(found: dict[str, Any], now: float) -> None:
    """A young object and one without a word are in no trouble."""
    assert trouble(found, now) == ""
