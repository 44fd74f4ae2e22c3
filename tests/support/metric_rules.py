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
)
