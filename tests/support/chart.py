"""The chart as Helm renders it, through Helm's own SDK."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import helm_python as helm
import yaml

from support.scripts import ROOT

CHART = ROOT / "charts" / "multimodal-operator"
RELEASE = "multimodal-operator"
NAMESPACE = "multimodal-system"

EXHAUSTIVE: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("every_value.yaml").read_text(encoding="utf-8")
)
"""Every value set to something that is not its default; the router is off."""


def rendered(values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = json.loads(_rendered(json.dumps(values or {})))
    return objects


@cache
def _rendered(values: str) -> str:
    # Both as JSON: tests change what they are given.
    with helm.Chart.load(CHART) as chart:
        texts = chart.render(json.loads(values), name=RELEASE, namespace=NAMESPACE)
    return json.dumps(
        [
            item
            for path, text in sorted(texts.items())
            if path.endswith(".yaml")
            for item in yaml.load_all(text, yaml.CSafeLoader)  # ten times as fast as safe_load_all
            if item is not None
        ]
    )


def of_kind(kind: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [item for item in rendered(values) if item["kind"] == kind]


def refusal(values: dict[str, Any]) -> str:
    """Return what Helm says to values that are wrong; empty: it takes them."""
    try:
        with helm.Chart.load(CHART) as chart:
            chart.render(values, name=RELEASE, namespace=NAMESPACE)
    except helm.HelmError as error:
        return str(error)
    return ""
