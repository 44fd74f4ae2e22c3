"""The layout that ARCHITECTURE.md promises, checked where a tool does not do it already."""

import ast
import operator
import re
import subprocess
from pathlib import Path

import pytest

from mm_api import contract

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [
    ROOT / "crds" / "mm_api",
    ROOT / "operator" / "mm_operator",
    ROOT / "lab" / "mm_lab",
    ROOT / "mmctl" / "mm_ctl",
    ROOT / "runtime" / "mm_runtime",
    ROOT / "devcluster" / "mm_devcluster",
    ROOT / "edge" / "mm_edge",
    ROOT / "observability" / "mm_observability",
    ROOT / "router" / "mm_router",
]


def tracked(*patterns: str) -> list[Path]:
    output = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [ROOT / name for name in output.split("\0") if name and (ROOT / name).exists()]


def test_operator_folder_does_not_shadow_the_standard_library() -> None:
    """`import operator` gives the standard library's module, and nothing can change that."""
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert operator.add(1, 2) == 3


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_every_package_states_its_rule(package: Path) -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sorted(package.rglob("__init__.py"))
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert silent == []


def test_label_prefix_stands_in_one_python_module() -> None:
    literal = re.compile(r"[\"']serving\.multimodal\.dev/(?!v1alpha1)")
    found = [
        str(path.relative_to(ROOT))
        for path in tracked(
            "crds/*.py", "operator/*.py", "mmctl/*.py", "runtime/*.py", "devcluster/*.py"
        )
        if path != ROOT / "crds" / "mm_api" / "labels.py"
        if literal.search(path.read_text(encoding="utf-8"))
    ]

    assert found == []


def test_ports_paths_and_flags_stand_in_the_contract() -> None:
    said = vars(contract)
    places = {said[name] for name in said if name.endswith("_MOUNT")} | {contract.REPOSITORY}
    ports = {contract.HTTP_PORT, contract.GRPC_PORT, contract.METRICS_PORT}
    flags = {flag for name, flag in vars(contract.Flag).items() if name.isupper()}
    found = []
    for path in tracked("crds/*.py", "operator/*.py", "runtime/*.py", "devcluster/*.py"):
        if path == ROOT / "crds" / "mm_api" / "contract.py":
            continue
        in_children = path.is_relative_to(ROOT / "operator" / "mm_operator" / "children")
        out = places | ports | (flags if in_children else set())
        text = path.read_text(encoding="utf-8")
        if not any(str(one) in text for one in out):
            continue
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}: {node.value!r}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant)
            if isinstance(node.value, int | str) and node.value in out
        ]

    assert found == []


def test_no_file_names_a_registry_or_a_lock_with_addresses() -> None:
    """Pinned environments hold hashes and no addresses, so they work behind any mirror."""
    forbidden = re.compile(r"(?:index-url|find-links|GOPROXY)[ =]+[\"']?https?:")
    named = [
        str(path.relative_to(ROOT))
        for path in tracked("requirements/*", "*.toml", "Makefile", "*.mod", "*.sh", ".ci/run")
        if forbidden.search(path.read_text(encoding="utf-8"))
    ]

    assert tracked("uv.lock", "*/uv.lock", "poetry.lock") == []
    assert named == []


def test_no_image_holds_what_measures() -> None:
    recipes = tracked("*Dockerfile*", "devcluster/mm_devcluster/images/*.py")
    assert len(recipes) > 10
    named = [path for path in recipes if re.search(r"mm[_-]lab|lab/", path.read_text("utf-8"))]
    assert named == []


def test_no_drawers() -> None:
    drawers = {"utils", "util", "common", "helpers", "misc"}

    assert [str(path.relative_to(ROOT)) for path in tracked("*.py") if path.stem in drawers] == []
