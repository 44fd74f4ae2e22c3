"""`make coverage` fails below its floor, and finds the tests of a module."""

import subprocess
import sys
from pathlib import Path

import pytest
from coverage import Coverage

import pure_coverage
import tests_of
from mutation.coverage_map import CoverageMap
from support.needs import ROOT

HALF = "mm_operator." + "half"
"""A module of the tests below alone."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one module, of whose four lines a test runs three, and coverage's data."""
    tmp_path = tmp_path_factory.mktemp("repository")
    package = tmp_path / "operator" / "mm_operator"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "half.py").write_text(
        "def half(n):\n    if n % 2:\n        return None\n    return n // 2\n"
    )
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_half.py").write_text(
        f"from {HALF} import half\n\ndef test_half():\n    assert half(4) == 2\n"
    )
    (tests / "test_other.py").write_text("def test_other():\n    assert True\n")
    (tmp_path / ".coveragerc").write_text("[run]\nbranch = false\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    command += ["-o", "pythonpath=operator", "--import-mode=importlib", "tests"]
    command += ["--cov=operator/mm_operator", "--cov-context=test", "--cov-report="]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    return tmp_path


def test_lines_that_never_ran_are_counted(measured: Path) -> None:
    read = Coverage(data_file=str(measured / ".coverage"))
    read.load()

    found = pure_coverage.lines_of(HALF, read, measured)

    assert (found.count, found.share) == (4, 0.75)
    assert found.missing == {"operator/mm_operator/half.py": [3]}


@pytest.mark.parametrize(("missing", "code"), [(15, 0), (16, 1)], ids=["at-the-floor", "below"])
def test_a_package_below_the_floor_fails(
    missing: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    good = pure_coverage.Lines("mm_api", 10_000, {})
    other = pure_coverage.Lines("mm_operator.plan", 100, {"plan/a.py": list(range(7, 7 + missing))})

    assert pure_coverage.report([good, other]) == code
    named = f"plan/a.py: {missing} never run, the first is line 7" in capsys.readouterr().out
    assert named == bool(code)


def test_pure_packages_are_those_of_the_contract() -> None:
    packages = pure_coverage.pure_packages(ROOT / ".importlinter")

    assert {"mm_api", "mm_operator.plan"} <= set(packages)
    assert [name for name in packages if not list(pure_coverage.files_of(name))] == []


def test_tests_of_a_module_are_found(measured: Path) -> None:
    """Those of its folder, those that import it, and those that run its lines, by how many."""
    module = measured / "operator" / "mm_operator" / "half.py"
    store = tests_of.ROOT / "operator" / "mm_operator" / "plan" / "store.py"

    assert tests_of.folder(store) == Path("tests/mm_operator/plan")
    assert tests_of.importers(module, measured) == ["tests/test_half.py"]
    assert tests_of.runners(module, measured / ".coverage", measured) == {"tests/test_half.py": 2}


def test_lines_of_an_unmeasured_file_have_no_tests(measured: Path) -> None:
    covered = CoverageMap(measured / ".coverage", measured)

    assert covered.lines_of("operator/mm_operator/gone.py") == {}
