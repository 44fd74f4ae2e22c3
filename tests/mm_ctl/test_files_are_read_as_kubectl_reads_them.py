"""What mmctl sees in a file is what `kubectl apply` sends: YAML 1.1 as go-yaml 2 reads it."""

import pytest
import yaml

from mm_ctl.documents import load_all
from support.cases import cases


@cases(
    "written expected",
    {
        "y": ("y", True),
        "n": ("N", False),
        "off": ("off", False),
        "true": ("True", True),
        "quoted": ("'y'", "y"),
        "mixed-case": ("yEs", "yEs"),
        "not-base-60": ("12:30", "12:30"),
        "not-a-base-60-float": ("1:30.5", "1:30.5"),
        "not-a-date": ("2026-01-02", "2026-01-02"),
        "hexadecimal": ("0x1F", 31),
        "octal": ("017", 15),
        "underscores": ("1_000", 1000),
        "exponent": ("1e3", 1000.0),
        "float": ("1.5", 1.5),
        "negative": ("-4", -4),
        "null": ("~", None),
        "quantity": ("80Gi", "80Gi"),
        "version": ("0.20.0", "0.20.0"),
    },
)
def test_scalars_are_of_kubectls_types(written: str, expected: object) -> None:
    (document,) = load_all(f"key: {written}\n")

    assert document == {"key": expected}
    assert type(document["key"]) is type(expected)


def test_keys_are_unique() -> None:
    """The second would win in silence."""
    with pytest.raises(yaml.YAMLError, match="the mapping has the key a twice"):
        load_all("spec: {a: 1, a: 2}\n")


def test_merges_stay() -> None:
    """A merge key adds what the mapping has not."""
    assert load_all("x: &x {a: 1}\ny2: {<<: *x, b: 2}\n") == [
        {"x": {"a": 1}, "y2": {"a": 1, "b": 2}}
    ]
