"""Each of our own checks has a case here that breaks it: a check that cannot fail is worthless."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mutation.coverage_map import CoverageMap
from mutation.places import places_of, sample
from support.cases import cases
from support.scripts import load_tool as load


def test_size_check_names_a_file_past_the_hard_stop(tmp_path: Path) -> None:
    small, big = tmp_path / "small.py", tmp_path / "big.py"
    small.write_text("x = 1\n" * 500, encoding="utf-8")
    big.write_text("x = 1\n" * 501, encoding="utf-8")

    assert load("check_sizes").oversized([small, big]) == [(big, 501)]


def test_a_house_above_its_ceiling_is_reported() -> None:
    size = load("size")
    tuning = "class Tuning:\n    first: int = 1\n    second: int = 2\n"
    sources = {
        "runtime/mm_runtime/launch/serve.py": 'if backend == "TensorRT":\n    pass\n',
        "crds/mm_api/v1alpha1/engine.py": 'Backend = Literal["TensorRT"]\n',
        "tests/test_one.py": 'BACKEND = "TensorRT"\n',
        size.TUNING: tuning,
    }

    assert [one.count(sources) for one in size.MEASURES] == [6, 1, 1, 2]
    literals = size.Measure("files with a backend", 0, 0, size.files_with_a_backend)
    assert size.above((literals,), sources)[0].startswith("files with a backend: 1, at most 0")
    assert size.above(size.MEASURES[:2], sources) == []


def test_document_check_names_a_module_that_does_not_exist(tmp_path: Path) -> None:
    package = tmp_path / "crds" / "mm_api"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "labels.py").write_text("MODEL = 'x'\n", encoding="utf-8")
    page = tmp_path / "page.md"
    good, bad = "mm_api.labels.MODEL", "mm_api." + "gone"
    page.write_text(f"{good} and {bad}, `mmctl plan` and `mmctl gone`\n", encoding="utf-8")

    lines = [f"page.md: {name} does not exist" for name in (bad, "mmctl gone")]
    assert load("check_docs").broken_names(tmp_path, page) == lines


def test_document_check_names_a_path_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "tests" / "plan").mkdir(parents=True)
    page = tmp_path / "page.md"
    page.write_text("`pytest tests/plan tests/gone` `tests/p*` `/usr/tests/x` tests/prose\n")

    assert load("check_docs").broken_paths(tmp_path, page) == ["page.md: tests/gone does not exist"]


def test_document_check_names_a_link_without_page_or_heading(tmp_path: Path) -> None:
    """Headings in code blocks are none; a link within the page needs its heading, too."""
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`, three\n```\n# not one\n```\n"
        "[a](page.md#one-two-three) [b](#one-two-three) [c](missing.md) [d](#gone)\n"
    )

    assert load("check_docs").broken_links(tmp_path, page) == [
        "page.md: link to missing.md, which does not exist",
        "page.md:  has no heading #gone",
    ]


@cases(
    "name lines found",
    {
        "at-the-limit": ("docs/a.md", 300, False),
        "above": ("docs/a.md", 301, True),
        "exempt": ("docs/reference/api-status.md", 301, False),
        "study": ("docs/studies/a.md", 301, False),
        "elsewhere": ("README.md", 301, False),
    },
)
def test_document_check_names_a_long_page(
    tmp_path: Path, name: str, lines: int, *, found: bool
) -> None:
    page = tmp_path / name
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("x\n" * lines)

    assert bool(load("check_docs").long_page(tmp_path, page)) == found


def test_document_check_names_a_long_changelog_entry(tmp_path: Path) -> None:
    page = tmp_path / "CHANGELOG.md"
    page.write_text(f"- {'x' * 198}\n- {'x' * 199}\n- short\n  continues\n")

    found = load("check_docs").long_entries(tmp_path, page)
    assert [line.split(":")[1] for line in found] == ["2", "4"]


def test_page_check_names_what_is_too_long() -> None:
    judge = load("check_pages").judge
    assert judge("a.md", "It is short.\n" * 199 + "| " + "x. " * 90) == []
    pages = ("- one\n" * 201, "word. " * 21, " a\n".join(["ab"] * 21), "| " + "ab " * 41)
    assert all(judge("a.md", page) for page in (*pages, "ab " * 26 + ".\n"))


def test_document_check_names_misplaced_docstrings() -> None:
    short = '    """Return it."""\n    return 1\n'
    long = '    """Return it."""\n' + "    print()\n" * 4
    source = (
        f"def _short():\n{short}\ndef _long():\n{long}\ndef public():\n{short}\n"
        'LIMIT = 1\n"""Of it."""\nOTHER = 2\n"""Most of it."""\n'
        "def silent():\n" + "    print()\n" * 11
    )

    found = load("check_docs").misplaced_docstrings("a.py", source)
    assert [line.split(":")[1] for line in found] == ["17", "1", "20"]


SOURCE = """\
@dataclass(frozen=True)
class Limits:
    least: int = 1

def fits(size: int | None, *, limit: int) -> bool:
    return size is not None and size <= limit
"""


def test_mutated_places_are_what_tests_can_see() -> None:
    """Arguments of decorators and `|` of annotations are left alone."""
    found = {(one.line, one.operator.removeprefix("core/")) for one in places_of("a.py", SOURCE)}
    assert found == {
        (3, "NumberReplacer"),
        (6, "ReplaceAndWithOr"),
        (6, "ReplaceComparisonOperator_IsNot_Is"),
        (6, "ReplaceComparisonOperator_LtE_Lt"),
    }


def test_the_sample_of_places_survives_edits_elsewhere() -> None:
    before, after = (places_of("a.py", top + SOURCE) for top in ("", "import math\nROUND = 3\n"))
    digests = {one.digest() for one in after if one.line > 2}
    assert digests == {one.digest() for one in before}
    assert [one.digest() for one in sample(before, 2)] == sorted(digests)[:2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "caught"), [("size <= limit", True), ("size <= 9", False)], ids=["seen", "unseen"]
)
def test_a_mutant_is_caught_by_a_test_that_fails(
    tmp_path: Path, condition: str, *, caught: bool
) -> None:
    (tmp_path / "fits.py").write_text(f"def fits(size, limit):\n    return {condition}\n")
    (tmp_path / "test_fits.py").write_text(
        "from fits import fits\n\ndef test_fits():\n    assert fits(2, 2) and not fits(10, 2)\n"
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    slow\n    cluster\n    e2e\n    s3\n    triton\n"
    )
    source = (tmp_path / "fits.py").read_text()
    [place] = (one for one in places_of("fits.py", source) if one.operator.endswith("LtE_Lt"))
    mutants = load("mutants")
    assert mutants._is_caught(tmp_path, place, {"test_fits.py::test_fits"}, ()) == caught
    assert mutants._is_caught(tmp_path, place, set(), ("test_fits.py",)) == caught
    assert (tmp_path / "fits.py").read_text() == source


@pytest.mark.slow
def test_a_mutant_that_no_conftest_can_import_is_caught(tmp_path: Path) -> None:
    """Pytest ends as for tests that are not found, which catch nothing."""
    (tmp_path / "names.py").write_text("NAME = 'a' + 'b'\n")
    (tmp_path / "conftest.py").write_text("import names\n")
    (tmp_path / "test_names.py").write_text("def test_nothing():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    [place] = places_of("names.py", (tmp_path / "names.py").read_text())
    mutants = load("mutants")
    assert mutants._is_caught(tmp_path, place, set(), ("test_names.py",))

    (tmp_path / "conftest.py").write_text("")
    assert not mutants._is_caught(tmp_path, place, {"test_gone.py"}, ("test_names.py",))


@pytest.mark.slow
def test_repeated_runs_stop_at_the_first_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "test_third.py").write_text(
        "from pathlib import Path\n\n"
        "def test_third():\n"
        "    log = Path('runs')\n"
        "    log.open('a').write('x')\n"
        "    assert len(log.read_text()) < 3\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    assert load("flakes").repeat([*command, "test_third.py"], 5, tmp_path) == 2


def test_repeated_runs_take_the_tests_of_a_change(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, check=True, timeout=60)

    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("test_same.py", "test_edited.py", "test_gone.py", "helper.py"):
        (tests / name).write_text("")
    git("init", "--quiet")
    git("add", "-A")
    git("commit", "--quiet", "-m", "before")
    (tests / "test_edited.py").write_text("x = 1\n")
    (tests / "helper.py").write_text("x = 1\n")
    (tests / "test_new.py").write_text("")
    (tests / "test_gone.py").unlink()
    assert load("flakes").changed_tests(tmp_path, "HEAD") == [
        "tests/test_edited.py",
        "tests/test_new.py",
    ]


def test_lines_know_who_looks_at_what_they_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line's tests, the entire file of a fixture, and every test of what runs at import."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "sums.py").write_text(
        "LEAST = 1\n\ndef early():\n    return 2\n\ndef late():\n    return LEAST\n\n"
        "def shared():\n    return 3\n"
    )
    (tmp_path / "test_sums.py").write_text(
        "import pytest\nimport sums\n\nEARLY = sums.early()\n\n"
        "@pytest.fixture(scope='module')\ndef shared():\n    return sums.shared()\n\n"
        "def test_early():\n    assert EARLY == 2\n\n"
        "def test_late(shared):\n    assert sums.late() + shared == 4\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    command += [
        "-p",
        "pytest_cov",
        "--rootdir=.",
        "--cov=sums",
        "--cov-context=test",
        "--cov-report=",
        "test_sums.py",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=240)

    covered = CoverageMap(tmp_path / ".coverage", tmp_path)

    late, shared = {"test_sums.py::test_late"}, {"test_sums.py"}
    found = {line: covered.tests_of("sums.py", line) for line in (1, 4, 7, 10)}
    assert found == {1: late | shared, 4: late | shared, 7: late, 10: shared}
