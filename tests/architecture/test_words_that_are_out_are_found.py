"""The vocabulary check names every word that the glossary lists as out, and nothing else."""

import re
import subprocess
from pathlib import Path

import pytest

import check_vocabulary
from support.scripts import ROOT


def test_words_of_pages() -> None:
    page = "Ask.\n`told` [x](whole.md) whole number\n```\ntold\n```\nNobody\n"

    assert check_vocabulary.problems_of_page("a.md", page) == [
        "a.md:1: 'Ask' is out: request, query, require",
        "a.md:6: 'Nobody' is out: name the client, user or component",
    ]


def test_words_within_identifiers() -> None:
    """Snake case, camel case and messages count; longer words that hold one do not."""
    text = "def told_starts(pictureIds): raise Error('whole task, wholesale')  # asks\n"

    assert check_vocabulary.count_in_code(text) == 4


def test_lines_of_code() -> None:
    """Flags, names of document fields and tensors and a file's position may hold such a word."""
    text = 'told = 1\nflag = "--picture"\nField(alias="wholeRequest")\nf.tell(), "PICTURE_SIZES"\n'

    assert check_vocabulary.problems_of_code("a.py", text) == [
        "a.py:1: a word that is out (docs/design/words.md): told = 1"
    ]


def test_names_comments_and_docstrings_of_examples() -> None:
    text = 'def told():\n    """One\n    `told` nobody."""\n    return "asks"  # asks\n'

    assert check_vocabulary.problems_of_names("a.py", text) == [
        "a.py:1: told holds a word that is out",
        "a.py:3: 'nobody' is out: name the client, user or component",
        "a.py:4: 'asks' is out: request, query, require",
    ]


def test_names_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that Git tracks, in every folder."""
    git = ("git", "-C", str(tmp_path))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_errors_are_told.yaml").touch()
    (tmp_path / "tests" / "test_others_are_not.py").touch()
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)

    assert check_vocabulary.main(tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "tests/test_errors_are_told.yaml: the name of the file holds a word that is out"
    ]


def test_glossary_lists_every_word_that_is_out() -> None:
    rows = (ROOT / "docs/design/words.md").read_text().partition("## Words that are out")[2]
    listed = re.findall(r"^\| ([^|]+) \|", rows, re.MULTILINE)[2:]
    words = {word for row in listed for word in row.split(", ")}
    patterns = list(check_vocabulary.OUT)

    assert [one for one in patterns if not any(re.fullmatch(one, word) for word in words)] == []
    assert {w for w in words if not any(re.fullmatch(p, w) for p in patterns)} == set()
