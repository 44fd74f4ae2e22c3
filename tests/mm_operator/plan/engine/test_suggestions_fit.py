"""A plan that does not fit says by how much, and what would."""

from typing import Any

from mm_api.documents.model_plan import Suggestion
from support.cases import cases
from support.model_configs import planned


def applied(suggestion: Suggestion) -> dict[str, Any]:
    engine: dict[str, Any] = {}
    for change in suggestion.changes:
        name = change.path.removeprefix("spec.engine.")
        value: Any = int(change.suggested) if change.suggested.isdigit() else change.suggested
        if name == "parallelism.tensor":
            engine["parallelism"] = {"tensor": value}
        else:
            engine[name] = value
    return engine


@cases(
    "family gpu engine",
    {
        "llava-l4": ("llava", "l4-24gb", {}),
        "llava-t4": ("llava", "t4-16gb", {}),
        "vila": ("vila", "l4-24gb", {"maxImagesPerRequest": 8, "maxBatchSize": 32}),
        "mllama-l4": ("mllama", "l4-24gb", {}),
        "onevision-l4": ("llava-onevision", "l4-24gb", {}),
        "qwen2-vl-l4": ("qwen2-vl", "l4-24gb", {}),
        "far-away": ("llava", "a10-24gb", {"maxBatchSize": 512}),
    },
)
def test_suggestions_are_true(family: str, gpu: str, engine: dict[str, Any]) -> None:
    plan = planned(family, engine, gpu=gpu)
    assert plan.fit.verdict == "DoesNotFit"
    assert plan.fit.suggestions

    for suggestion in plan.fit.suggestions:
        better = planned(family, engine | applied(suggestion), gpu=gpu)
        assert better.errors == []
        assert better.fit.verdict == "Fits"
        fullest = max(row.total_bytes for row in better.memory.per_gpu)
        assert fullest == suggestion.total_bytes


def test_the_smallest_change_is_suggested() -> None:
    plan = planned("llava", gpu="l4-24gb")
    first = plan.fit.suggestions[0]
    assert first.changes[0].path == "spec.engine.maxBatchSize"

    one_more = planned(
        "llava", {"maxBatchSize": int(first.changes[0].suggested) + 1}, gpu="l4-24gb"
    )
    assert one_more.fit.verdict == "DoesNotFit"


def test_a_suggestion_says_what_stands_there_now() -> None:
    plan = planned("llava", gpu="l4-24gb")
    changes = [change for one in plan.fit.suggestions for change in one.changes]

    assert {change.path.removeprefix("spec.engine."): change.current for change in changes} == {
        "maxBatchSize": "8",
        "maxSeqLen": "2560",
        "quantization": "none",
        "parallelism.tensor": "1",
    }


def test_short_by_is_exact() -> None:
    plan = planned("llava", gpu="l4-24gb")
    assert plan.gpu is not None
    row = plan.memory.per_gpu[0]

    assert plan.fit.short_bytes == row.total_bytes - row.gpu_memory_bytes
    assert plan.fit.largest_term == "weights"


def test_what_fits_has_no_suggestions() -> None:
    fit = planned("llava").fit
    assert (fit.verdict, fit.short_bytes, fit.suggestions) == ("Fits", 0, [])
