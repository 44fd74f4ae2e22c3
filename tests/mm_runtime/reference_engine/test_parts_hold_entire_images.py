"""Parts of prompts whose images are read at once end between them, and the prompt is read."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mm_runtime.reference_engine.reach import reach_of, rows_of_part
from support.cases import cases

VOCABULARY = 10

PROMPTS = st.lists(
    st.one_of(
        st.just([1]), st.integers(1, 9).map(lambda rows: [*range(VOCABULARY, VOCABULARY + rows), 2])
    ),
    min_size=1,
    max_size=12,
).map(lambda pieces: [one for piece in pieces for one in piece])
"""Tokens, and images with a token behind each."""


def parts_of(ids: list[int], rows: int) -> list[int]:
    """Return the positions at which a prompt is cut, its end included."""
    reach, ends = reach_of(ids, VOCABULARY), [0]
    while ends[-1] < len(ids):
        left = len(ids) - ends[-1]
        ends.append(ends[-1] + rows_of_part(reach, ends[-1], min(rows, left)))
    return ends


@given(ids=PROMPTS, rows=st.integers(1, 20))
def test_no_row_reads_beyond_its_part(ids: list[int], rows: int) -> None:
    """Whatever the size of a part, what its rows read is in it or before it."""
    reach, ends = reach_of(ids, VOCABULARY), parts_of(ids, rows)

    for start, end in pairwise(ends):
        assert start < end
        assert all(one < end for one in reach[start:end])
    assert ends[-1] == len(ids)


@cases(
    "rows expected",
    {
        "behind-an-image": (2, [0, 2, 5, 7]),
        "before-an-image": (3, [0, 2, 5, 7]),
        "with-an-image": (5, [0, 5, 7]),
    },
)
def test_where_parts_end(rows: int, expected: list[int]) -> None:
    """Two tokens, an image of three features and two tokens."""
    assert parts_of([1, 1, 10, 11, 12, 2, 2], rows) == expected
