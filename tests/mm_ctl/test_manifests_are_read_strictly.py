"""What mmctl sees in a file: repeated keys are refused, dates are texts, merges act."""

from pathlib import Path

import pytest

from mm_ctl.documents import UsageError, read_model

HEAD = "kind: MultimodalModel\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.yaml"


def test_keys_are_unique(file: Path) -> None:
    """The second would win in silence."""
    file.write_text(HEAD + "spec: {a: 1, a: 2}\n")
    with pytest.raises(UsageError, match="the mapping has the key a twice"):
        read_model(str(file))


def test_dates_are_texts(file: Path) -> None:
    file.write_text(HEAD + "since: 2026-01-02\n")
    assert read_model(str(file))["since"] == "2026-01-02"


def test_merges_stay(file: Path) -> None:
    """A merge key adds what the mapping has not."""
    file.write_text(HEAD + "x: &x {a: 1}\nspec: {<<: *x, b: 2}\n")
    assert read_model(str(file))["spec"] == {"a": 1, "b": 2}
