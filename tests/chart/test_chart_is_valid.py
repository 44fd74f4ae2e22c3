"""The chart renders, is clean for Helm's linter, and its generated files are fresh."""

import shutil
from pathlib import Path

import helm_python as helm
import pytest
import yaml

from support.cases import cases
from support.chart import CHART, EXHAUSTIVE, NAMESPACE, rendered
from support.scripts import load_tool

WARNING = 2
"""Helm's severities: 1 information, 2 warning, 3 error."""


@cases("values", {"defaults": {}, "every-value": EXHAUSTIVE})
def test_linter_finds_nothing(values: dict[str, object]) -> None:
    result = helm.lint(CHART, values, strict=True)

    assert result["errors"] == []
    assert [one for one in result["messages"] if one["severity"] >= WARNING] == []


def test_cluster_wide_objects_carry_the_namespace_of_the_release() -> None:
    """Two releases of one name in different namespaces do not meet in one object."""
    kinds = ("ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy")
    names = [item["metadata"]["name"] for item in rendered({}) if item["kind"] in kinds]

    assert len(names) > len(kinds)
    assert [name for name in names if not name.startswith(f"{NAMESPACE}-")] == []


def test_exhaustive_values_are_all_values() -> None:
    """A new value must be added to the exhaustive ones, or the tests above miss it."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    assert _keys(EXHAUSTIVE) == _keys(defaults)


def _keys(values: dict[str, object]) -> dict[str, object]:
    groups = {"operator", "runtime", "serviceAccount", "rbac", "podDisruptionBudget", "service"}
    return {
        key: sorted(value) if key in groups and isinstance(value, dict) else None
        for key, value in sorted(values.items())
    }


def test_generated_files_are_fresh() -> None:
    assert load_tool("generate_chart").main(["--check"], CHART) == 0


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CHART, tmp_path / "charts" / "copy"))


@pytest.mark.parametrize("name", ["values.schema.json", "README.md"])
def test_edited_file_is_reported(name: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / name).write_text("edited", encoding="utf-8")

    assert load_tool("generate_chart").main(["--check"], copy) == 1
    assert capsys.readouterr().out == f"charts/copy/{name} is stale: run `make generate`\n"


@cases(
    "name old new message",
    {
        "typo": ("values.yaml", "workers: 8", "worker: 8", "values.yaml has operator.worker"),
        "default": ("values.yaml", "  workers: 8\n", "", "has operator.workers, values.yaml"),
        "description": (
            "values.schema.yaml",
            "description: Port of the Service.",
            "title: Port",
            "service.port has no description",
        ),
    },
)
def test_sources_that_disagree_stop_the_generator(
    name: str, old: str, new: str, message: str, copy: Path
) -> None:
    """A value needs a default in one file and a described schema in the other."""
    tool = load_tool("generate_chart")
    path = copy / name
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    with pytest.raises(tool.SourceError, match=message):
        tool.files(copy)
