"""JSON of long lists is the same, written in parts."""

import json

import pytest

from mm_edge.json_text import PART, encode, encode_in_parts


@pytest.mark.parametrize("count", [0, 1, PART - 1, PART, PART + 1, 3 * PART])
@pytest.mark.parametrize("one", [1.5, None, 'a"é\n', {"a": [1, {"b": 2}]}, [1], []], ids=str)
def test_lists_of_any_length(count: int, one: object) -> None:
    """Alone, in objects, and in lists of objects."""
    for body in (
        [one] * count,
        {"a": [one] * count, "b": {}, "c": {"d": [one] * count}},
        [{"a": [one] * count}, one, {}, [one] * count],
    ):
        assert encode_in_parts(body) == encode(body)
        assert json.loads(encode_in_parts(body)) == body


def test_surrogates_stay_escaped() -> None:
    """UTF-8 cannot carry them alone."""
    body = {"a": ["\ud83d"] * (PART + 1), "b": "é"}
    assert encode_in_parts(body) == encode(body)


@pytest.mark.parametrize("number", [float("nan"), float("inf")], ids=str)
def test_what_is_no_number(number: float) -> None:
    """JSON has neither NaN nor infinity: an answer with one is an error, not text of Python's."""
    for write in (encode, encode_in_parts):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write({"a": [{"b": number}] * (PART + 1)})


@pytest.mark.parametrize("body", [{}, [], "a", 1, None, [[]], {"a": {}}], ids=str)
def test_what_is_no_list(body: object) -> None:
    """It is the same, too."""
    assert encode_in_parts(body) == encode(body)
