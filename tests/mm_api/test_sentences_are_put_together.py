"""Parts are joined with one mark each, counts agree with nouns and articles with letters."""

import pytest

from mm_api.sentences import a, count, joined


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param(("one", "two"), "one; two", id="plain"),
        pytest.param(("no config.json.", "it is retried"), "no config.json; it is retried", id="."),
        pytest.param(("(ConnectError).", "again."), "(ConnectError); again.", id="last"),
        pytest.param(("not found; ", "two"), "not found; two", id="a-mark-of-its-own"),
        pytest.param(("", "two"), "two", id="nothing-before"),
        pytest.param(("one\na\nb", "two"), "one; two\na\nb", id="lines-of-a-log-follow"),
    ],
)
def test_parts_are_joined(parts: tuple[str, ...], expected: str) -> None:
    """No part's full stop stands before a semicolon, and no advice behind the lines of a log."""
    assert joined(*parts) == expected


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        pytest.param(noun, f"{article} {noun}", id=noun)
        for article, nouns in {
            "an": ("H100", "NVIDIA H100", "L40S", "A100", "RTX 4090", "MI300X", "image", "8-bit"),
            "a": ("T4", "GPU", "V100", "B200", "Tesla T4", "Hopper", "unit", "URL", "GH200"),
        }.items()
        for noun in nouns
    ],
)
def test_articles_follow_the_first_letter(noun: str, expected: str) -> None:
    """Letters that are spelled out count by how they are spoken."""
    assert a(noun) == expected


def test_counts_agree() -> None:
    """One of a thing has no s."""
    assert (count(1, "piece"), count(2, "piece"), count(0, "GPU"), count(2, "pass", "passes")) == (
        "1 piece",
        "2 pieces",
        "0 GPUs",
        "2 passes",
    )
