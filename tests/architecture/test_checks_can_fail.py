"""Each of our own checks has a case here that breaks it: a check that cannot fail is worthless."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    """Import a script of `tools/`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_size_check_names_a_file_past_the_hard_stop(tmp_path: Path) -> None:
    """501 lines are one too many, 500 are not."""
    small, big = tmp_path / "small.py", tmp_path / "big.py"
    small.write_text("x = 1\n" * 500, encoding="utf-8")
    big.write_text("x = 1\n" * 501, encoding="utf-8")

    assert load("check_sizes").oversized([small, big]) == [(big, 501)]


def test_document_check_names_a_module_that_does_not_exist(tmp_path: Path) -> None:
    """A dotted name that resolves is left alone; one that does not is reported."""
    package = tmp_path / "crds" / "mm_api"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "labels.py").write_text("MODEL = 'x'\n", encoding="utf-8")
    page = tmp_path / "page.md"
    good, bad = "mm_api.labels.MODEL", "mm_api." + "gone"
    page.write_text(f"{good} and {bad}\n", encoding="utf-8")

    assert load("check_docs").broken_names(tmp_path, page) == [f"page.md: {bad} does not exist"]


def test_document_check_names_a_link_to_nowhere(tmp_path: Path) -> None:
    """A relative link needs its target."""
    page = tmp_path / "page.md"
    page.write_text("[here](page.md) [there](missing.md)\n", encoding="utf-8")

    assert load("check_docs").broken_links(tmp_path, page) == [
        "page.md: link to missing.md, which does not exist"
    ]
