"""Each row of docs/design/guides.md names a test that exists, or why there is none."""

from typing import Any

import pytest

from support.scripts import ROOT, load_tool

GUIDES, EVIDENCE = load_tool("generate_guides"), load_tool("generate_evidence")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PAGES = ("gpu-results-two.md", "evidence.md")
MEASURED = "".join((ROOT / "docs/design" / page).read_text(encoding="utf-8") for page in PAGES)
ROWS = [row for table in GUIDES.guides() for row in table["rows"]]
WITHOUT_TEST = {"missing", "contradicts", "none"}


@pytest.mark.parametrize("row", [pytest.param(row, id=str(row["number"])) for row in ROWS])
def test_a_row(row: dict[str, Any]) -> None:
    assert row["verdict"] in GUIDES.VERDICTS
    assert bool(row.get("shown_by")) or (row["verdict"] in WITHOUT_TEST and bool(row["why"]))
    for command in row.get("shown_by", ()):
        if command.startswith("python bench/"):
            assert f"`{command}`" in MEASURED
            continue
        chosen = EVIDENCE.selection(command, MAKEFILE)
        assert chosen is not None, command
        assert EVIDENCE.test_files(ROOT, chosen), f"{command} selects no test"


def test_rows_are_numbered() -> None:
    assert [row["number"] for row in ROWS] == list(range(1, 187))
