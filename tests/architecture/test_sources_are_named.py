"""Formulas of the planner name a section of the page of public sources, and that section exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "design" / "planning-sources.md"
PLANNER = (ROOT / "operator" / "mm_operator" / "plan", ROOT / "crds" / "mm_api" / "families")
_NAMED = re.compile(r"[(\s](#[a-z][a-z-]+)")


def sections() -> set[str]:
    headings = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + heading.lower().replace(" ", "-") for heading in headings}


def named() -> dict[str, set[str]]:
    """Return anchor -> files of the planner that name it."""
    found: dict[str, set[str]] = {}
    for path in sorted(
        one for folder in PLANNER for one in folder.rglob("*") if one.suffix in {".py", ".yaml"}
    ):
        for anchor in _NAMED.findall(path.read_text(encoding="utf-8")):
            found.setdefault(anchor, set()).add(path.name)
    return found


def test_named_sections_exist() -> None:
    missing = {anchor: files for anchor, files in named().items() if anchor not in sections()}

    assert missing == {}


def test_formulas_name_sections() -> None:
    used = sections() & set(named())

    assert {"#sizing", "#features", "#pools", "#encoders", "#crossing", "#versions"} <= used
