"""An engine that this installation lacks is reported with the setting that brings it."""

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.model import KedaSettings
from mm_operator.scaling.engines import engine_problem
from support.cases import cases

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
