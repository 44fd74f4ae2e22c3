"""The answer ends right before the first stop string, however it was split into pieces."""

from hypothesis import given
from hypothesis import strategies as st

from mm_runtime.gateway.api.stops import StopCutter

TEXT = st.text(alphabet="abc", max_size=30)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3)


def _cut(pieces: list[str], stops: tuple[str, ...]) -> tuple[list[str], bool]:
    cutter = StopCutter(stops)
    out = []
    for piece in pieces:
        out.append(cutter.push(piece))
        if cutter.stopped:
            return out, True
    return [*out, cutter.flush()], False


@given(st.lists(TEXT, max_size=8), STOPS)
def test_pieces_join_to_the_text_before_the_first_stop(pieces: list[str], stops: list[str]) -> None:
    out, stopped = _cut(pieces, tuple(stops))
    text = "".join(pieces)
    ends = [end for end in range(len(text) + 1) if any(text[:end].endswith(stop) for stop in stops)]
    assert stopped == bool(ends)
    if not ends:
        assert text == "".join(out)
    else:
        assert text.startswith("".join(out))
        assert not any(stop in "".join(out) for stop in stops)


@given(st.lists(TEXT, max_size=8))
def test_without_stops_nothing_is_held_back(pieces: list[str]) -> None:
    cutter = StopCutter(())
    assert pieces == [cutter.push(piece) for piece in pieces]


def test_what_may_become_a_stop_is_held_and_given_back() -> None:
    """`ab` waits while `abc` may follow, and comes out when something else does."""
    cutter = StopCutter(("abc",))
    assert [cutter.push(piece) for piece in ("xa", "b", "d")] == ["x", "", "abd"]
