"""The manifests of examples/models are judged valid, and each fits a GPU of the page."""

import pytest

from mm_ctl.cli import main as mmctl
from support.scripts import load_tool

TOOL = load_tool("generate_gpu_choices")
EXAMPLES = {one.path.stem: one for one in TOOL.examples()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_manifest_is_valid_and_fits(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = EXAMPLES[name]
    assert mmctl(["validate", "-f", str(example.path)]) == 0, capsys.readouterr()

    plan = example.plan(TOOL.GPUS["H200"])
    assert plan.errors == []
    assert plan.fit is not None
    assert plan.fit.verdict == "Fits"
    assert example.path.stem.endswith(f".{example.backend.lower()}")


def test_page_names_every_manifest() -> None:
    page = (TOOL.ROOT / "docs" / "reference" / "gpus.md").read_text(encoding="utf-8")
    assert [name for name in EXAMPLES if f"[{name}](" not in page] == []
