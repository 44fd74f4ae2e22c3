"""Weights get into modules in one place of the runtime, which looks at each of them."""

import re
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "runtime" / "mm_runtime"
LOADER = RUNTIME / "reference_engine" / "all_weights.py"

LOADS = re.compile(r"(?<!AutoConfig)(?<!AutoTokenizer)(?<!, name\))\.from_pretrained\(\n?\s*\w")
"""Of a class with weights: configurations, tokenizers and processors have none."""

OTHERS = re.compile(r"\.load_state_dict\(|ignore_mismatched_sizes|load_checkpoint_and_dispatch")


def loads(text: str) -> list[str]:
    code = re.sub(r'"[^"\n]*"', '""', text)  # messages name commands for users
    return [found.group() for one in (LOADS, OTHERS) for found in one.finditer(code)]


def test_no_other_module_loads() -> None:
    """What transformers reports would be lost there."""
    modules = (path for path in RUNTIME.rglob("*.py") if path != LOADER)
    found = {path.name: loads(path.read_text(encoding="utf-8")) for path in modules}
    assert not {name: calls for name, calls in found.items() if calls}
    assert loads(LOADER.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    [
        "model = kind.from_pretrained(folder)",
        "model = transformers.CLIPVisionModel.from_pretrained(\n    folder)",
        "module.load_state_dict(weights, strict=False)",
        "given = dict(ignore_mismatched_sizes=True)",
    ],
    ids=["class", "named", "state", "sizes"],
)
def test_a_second_loader_is_found(text: str) -> None:
    assert loads(text)
