"""Parts are joined with one mark each, counts agree with nouns and articles with letters."""

import pytest

from mm_api.sentences import a, count, joined
from support.cases import cases


@cases(
    "parts expected",
    {
        "plain": (("one", "two"), "one; two"),
        ".": (("no config.json.", "it is retried"), "no config.json; it is retried"),
        "last": (("(ConnectError).", "again."), "(ConnectError); again."),
        "a-mark-of-its-own": (("not found; ", "two"), "not found; two"),
        "nothing-before": (("", "two"), "two"),
        "lines-of-a-log-follow": (("one\na\nb", "two"), "one; two\na\nb"),
    },
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
    assert a(noun) == expected


def test_counts_agree() -> None:
    assert (count(1, "piece"), count(2, "piece"), count(0, "GPU"), count(2, "pass", "passes")) == (
        "1 piece",
        "2 pieces",
        "0 GPUs",
        "2 passes",
    )
