"""Patterns for TensorRT-LLM's grammars: what every version reads, within bounds."""

import re

import pytest

from mm_runtime.gateway.backends.grammar_regex import plain_pattern
from mm_runtime.gateway.backends.trtllm_forms import choice_grammar
from mm_runtime.gateway.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("a", ["a"]),
        ("^(yes|no)$", ["yes", "no"]),
        (r"\d{4}-\d\d", ["2026-11"]),
        (r"(?:a|b)+c?", ["abac", "b"]),
        (r"[^a-c\d\]]{2,}", ["xy]"[:2], "xyz"]),
        (r"a{0,3}|", ["", "aaa"]),
        (r"\x41\u00e9\.\-\ \n", ["Aé.- \n"]),
        (r"(a{2}){3}", ["aaaaaa"]),
        ("é+", ["éé"]),
        ("}]", ["}]"]),
    ],
)
def test_patterns_stay(pattern: str, texts: list[str]) -> None:
    """As they are, without the anchors around all of them."""
    plain = plain_pattern(pattern, "guided_regex")
    assert plain in {pattern, pattern.strip("^$")}
    assert [text for text in texts if not re.fullmatch(plain, text)] == []


def test_dots_end_at_lines() -> None:
    """As everywhere else; the library's dot is any character."""
    assert plain_pattern(r"a.*\.", "guided_regex") == r"a[^\n]*\."


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", "without an end"),
        ("a)", "where nothing"),
        ("[a", "class without an end"),
        ("[]a]", "class without letters"),
        ("[[:alpha:]]", "`[` in a class"),
        ("(?=a)", "only `(?:`"),
        ("(?i)a", "only `(?:`"),
        (r"(a)\1", r"`\1`"),
        (r"\bword\b", r"`\b`"),
        (r"\p{L}", r"`\p`"),
        (r"[\D]", r"`\D`"),
        (r"\x4", "hexadecimal"),
        ("a\\", "`\\`"),
        ("*a", "is expected"),
        ("a^b", "is expected"),
        ("a$b", "where nothing"),
        ("a*?", "lazy"),
        ("a**", "repeats a repeat"),
        ("a{x}", "begins no"),
        ("a{,3}", "begins no"),
        ("a{3,1}", "wrong order"),
        ("(a*)*", "what may be empty"),
        ("(|a)+", "what may be empty"),
        ("a{5000}", "4096 letters"),
        ("((a{99}){99}){99}", "4096 letters"),
        ("a{99999999999999999999}", "4096 letters"),
        ("(" * 60 + "a" + ")" * 60, "48 groups"),
    ],
)
def test_refused(pattern: str, words: str) -> None:
    """With the reason and the place."""
    with pytest.raises(InvalidRequestError) as refusal:
        plain_pattern(pattern, "guided_regex")
    assert words in str(refusal.value)
    assert "at character" in str(refusal.value)
    assert (refusal.value.param, refusal.value.code) == ("guided_regex", "unsupported_pattern")


def test_choices_are_literals() -> None:
    """Quotes, backslashes and control characters are escaped, doubles left out."""
    texts = ["a", 'b"', "c\\d", "e\nf", "é|g", "a"]
    expected = r'root ::= "a" | "b\"" | "c\\d" | "e\u000af" | "é|g"'
    assert choice_grammar(texts) == expected
