"""What mmctl sees in a file is what `kubectl apply` sends: YAML 1.1 as go-yaml 2 reads it."""

import pytest
import yaml

from mm_ctl.kubectl_yaml import load_all


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("y", True, id="y"),
        pytest.param("N", False, id="n"),
        pytest.param("off", False, id="off"),
        pytest.param("True", True, id="true"),
        pytest.param("'y'", "y", id="quoted"),
        pytest.param("yEs", "yEs", id="mixed-case"),
        pytest.param("12:30", "12:30", id="not-base-60"),
        pytest.param("1:30.5", "1:30.5", id="not-a-base-60-float"),
        pytest.param("2026-01-02", "2026-01-02", id="not-a-date"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("017", 15, id="octal"),
        pytest.param("1_000", 1000, id="underscores"),
        pytest.param("1e3", 1000.0, id="exponent"),
        pytest.param("1.5", 1.5, id="float"),
        pytest.param("-4", -4, id="negative"),
        pytest.param("~", None, id="null"),
        pytest.param("80Gi", "80Gi", id="quantity"),
        pytest.param("0.20.0", "0.20.0", id="version"),
    ],
)
def test_scalars_are_of_kubectls_types(written: str, expected: object) -> None:
    """A word is a boolean, a number or text exactly where the API server would get one."""
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
