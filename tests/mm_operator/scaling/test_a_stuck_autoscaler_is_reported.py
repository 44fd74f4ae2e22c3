"""When the object that should move replicas cannot, the model's own status says so."""

from typing import Any

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.model import KedaSettings
from mm_operator.scaling.engines import PATIENCE_SECONDS, engine_problem, trouble
from support.cases import cases

MADE = "2026-01-01T00:00:00Z"
LATER = 1767225600.0 + PATIENCE_SECONDS


def scaled(**condition: Any) -> dict[str, Any]:
    metadata = {"name": "llava", "creationTimestamp": MADE}
    return {"metadata": metadata, "status": {"conditions": [condition]}}


FALLEN_BACK = scaled(type="Fallback", status="True", reason="FallbackExists")


@cases(
    "found expected",
    {
        "keda-falls-back": (FALLEN_BACK, "Fallback is True, FallbackExists), nothing is lowered"),
        "keda-refuses": (
            scaled(type="Ready", status="False"),
            "see kubectl describe scaledobject llava",
        ),
    },
)
def test_it_is_a_sentence(found: dict[str, Any], expected: str) -> None:
    assert expected in trouble(found, LATER)


@cases(
    "found now",
    {
        "just-made": (FALLEN_BACK, LATER - 1),
        "keda-is-well": (scaled(type="Ready", status="True"), LATER),
        "of-no-interest": (scaled(type="Active", status="False"), LATER),
        "no-status": ({**FALLEN_BACK, "status": None}, LATER),
    },
)
def test_what_is_well_is_silent(found: dict[str, Any], now: float) -> None:
    """A young object and one without a word are in no trouble."""
    assert trouble(found, now) == ""


READS = KedaSettings(addresses=("http://prometheus",))


@cases(
    "keda missing engine expected",
    {
        "the-operator-itself": (None, "", "Builtin", ""),
        "not-reported": (None, "", "KEDA", "set the chart's keda.enabled"),
        "not-installed": (READS, "none", "KEDA", "install KEDA (none)"),
        "nothing": (KedaSettings(), "", "KEDA", "needs a Prometheus"),
        "keda": (READS, "", "KEDA", ""),
    },
)
def test_an_engine_that_cannot_work_says_why(
    keda: KedaSettings | None, missing: str, engine: str, expected: str
) -> None:
    spec = AutoscalingSpec.model_validate({"engine": engine})
    reported = engine_problem(spec, keda, lambda: missing)

    assert (bool(reported), expected in reported) == (bool(expected), True)
