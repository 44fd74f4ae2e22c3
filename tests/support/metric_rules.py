"""Rules about metrics of `spec.autoscaling`, as `model_documents.RuleExample` has them."""

from collections.abc import Mapping
from typing import Any

from mm_api.metrics import OBJECTIVE_HISTOGRAMS

METRIC_RULES: tuple[tuple[str, str, str, Mapping[str, Any], Mapping[str, Any]], ...] = (
    *(
        (
            f"{metric}-has-buckets",
            "objectives[0].target",
            f"target of {metric} must be from ",
            {"objectives": [{"metric": metric, "target": "1s"}]},
            {"objectives": [{"metric": metric, "target": "1h"}]},
        )
        for metric in OBJECTIVE_HISTOGRAMS
    ),
    (
        "query-has-an-expression",
        "customQuery",
        "customQuery has no expression",
        {"customQuery": "vector(2)"},
        {"customQuery": " "},
    ),
    (
        "query-names-its-series",
        "customQuery",
        "customQuery has a selector without a name",
        {"customQuery": "mm_requests_running{model='$model'}"},
        {"customQuery": "{__name__='mm_requests_total'}"},
    ),
    (
        "query-can-fall",
        "customQuery",
        "customQuery takes a counter or a histogram as it is",
        {"customQuery": "sum(rate(mm_requests_total[5m]))"},
        {"customQuery": "sum(mm_requests_total)"},
    ),
)
