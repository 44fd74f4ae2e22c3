"""An engine that this installation lacks is reported with the setting that brings it."""

import pytest

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.model import KedaSettings
from mm_operator.scaling.engines import engine_problem

READS = KedaSettings(addresses=("http://prometheus",))


@pytest.mark.parametrize(
    ("keda", "missing", "engine", "expected"),
    [
        pytest.param(None, "", "Builtin", "", id="the-operator-itself"),
        pytest.param(None, "", "KEDA", "set the chart's keda.enabled", id="not-reported"),
        pytest.param(READS, "none", "KEDA", "install KEDA (none)", id="not-installed"),
        pytest.param(KedaSettings(), "", "KEDA", "needs a Prometheus", id="nothing"),
        pytest.param(READS, "", "KEDA", "", id="keda"),
    ],
)
def test_an_engine_that_cannot_work_says_why(
    keda: KedaSettings | None, missing: str, engine: str, expected: str
) -> None:
    """What is missing is named with the setting that brings it; nothing missing is silence."""
    spec = AutoscalingSpec.model_validate({"engine": engine})
    reported = engine_problem(spec, keda, lambda: missing)

    assert (bool(reported), expected in reported) == (bool(expected), True)
