"""An engine that this installation lacks is reported with the setting that brings it."""

import pytest

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.model import KedaSettings
from mm_operator.scaling.engines import Engines

READS = KedaSettings(addresses=("http://prometheus",))


@pytest.mark.parametrize(
    ("engines", "engine", "expected"),
    [
        pytest.param(Engines(), "Builtin", "", id="the-operator-itself"),
        pytest.param(Engines(), "KEDA", "set the chart's keda.enabled", id="not-reported"),
        pytest.param(
            Engines(keda=READS, keda_missing=lambda: "no such kind"),
            "KEDA",
            "install KEDA (no such kind)",
            id="not-installed",
        ),
        pytest.param(Engines(keda=KedaSettings()), "KEDA", "needs a Prometheus", id="nothing"),
        pytest.param(Engines(keda=READS), "KEDA", "", id="keda"),
    ],
)
def test_an_engine_that_cannot_work_says_why(engines: Engines, engine: str, expected: str) -> None:
    """What is missing is named with the setting that brings it; nothing missing is silence."""
    reported = engines.problem(AutoscalingSpec.model_validate({"engine": engine}))

    assert (bool(reported), expected in reported) == (bool(expected), True)
