"""PURE: what `mmctl ui` shows of models, as JSON, from what `status` and `scaling` print."""

from collections.abc import Mapping
from typing import Any

from mm_api.v1alpha1.quantity import bytes_of
from mm_ctl.commands.memory_bars import bars_of
from mm_ctl.commands.scaling_explanation import explain
from mm_ctl.commands.status import progress_of, stages, waits_for


def summary(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's row of the list of models."""
    status = model.get("status") or {}
    marks = list(stages(model))
    return {
        "namespace": model["metadata"]["namespace"],
        "name": model["metadata"]["name"],
        "backend": (model["spec"].get("engine") or {}).get("backend", ""),
        "gpu": ((status.get("plan") or {}).get("gpu") or {}).get("product", ""),
        "replicas": status.get("readyOfWanted", "-"),
        "ready": marks[-1][1] == "✓",
        "mark": next((mark for _, mark in marks if mark != "✓"), "✓"),
        "waits": waits_for(model),
    }


def details(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page of one model shows beside its row."""
    status = model.get("status") or {}
    resources = (model["spec"].get("runtime") or {}).get("resources") or {}
    stated = bytes_of((resources.get("limits") or {}).get("memory", 0))
    return {
        "stages": list(stages(model)),
        "stale": status.get("observedGeneration") != model["metadata"].get("generation"),
        "url": status.get("url", ""),
        "conditions": status.get("conditions") or [],
        "bars": bars_of(status.get("plan") or {}, stated or None),
        "build": status.get("build") or {},
        "progress": progress_of(model),
        "scaling": list(explain(model, history=False)),
        "history": (status.get("scaling") or {}).get("history") or [],
    }


def event(item: Mapping[str, Any]) -> dict[str, Any]:
    times = (
        item.get("lastTimestamp"),
        item.get("eventTime"),
        item["metadata"]["creationTimestamp"],
    )
    shown = {key: item.get(key) or "" for key in ("reason", "type", "message")}
    return {"time": next(filter(None, times)), "count": item.get("count") or 1, **shown}
