"""An answer ends at the right token, and nothing of a stop word is given out."""

import pytest

from mm_runtime.reference_engine.running import Progress
from mm_runtime.serving.generate.request import Finish

END = 99


def _run(
    tokens: list[int], *, stop: tuple[tuple[int, ...], ...] = (), limit: int = 50
) -> list[tuple[list[int], Finish | None]]:
    progress = Progress(max_tokens=limit, end_ids=frozenset({END}), stop=stop)
    given: list[tuple[list[int], Finish | None]] = []
    for token in tokens:
        emission = progress.accept(token)
        given.append((progress.ids[emission.start : emission.end], emission.finish))
        if emission.finish is not None:
            break
    return given


def test_end_token_is_not_part_of_the_answer() -> None:
    assert _run([1, 2, END, 3]) == [([1], None), ([2], None), ([], Finish.STOP)]


def test_limit_gives_out_everything() -> None:
    assert _run([1, 2, 3], limit=2) == [([1], None), ([2], Finish.LENGTH)]


def test_start_of_a_stop_word_is_held_back_until_it_is_none() -> None:
    expected = [([1], None), ([], None), ([], None), ([7, 8, 5], None)]
    assert expected == _run([1, 7, 8, 5], stop=((7, 8, 9),))


def test_stop_word_is_cut_off() -> None:
    assert _run([1, 7, 8, 2], stop=((7, 8),)) == [([1], None), ([], None), ([], Finish.STOP)]


def test_longest_of_several_matches_is_cut_off() -> None:
    expected = [([1], None), ([], None), ([], Finish.STOP)]
    assert expected == _run([1, 7, 8], stop=((8,), (7, 8)))


def test_overlapping_start_is_found() -> None:
    expected = [([], None), ([], None), ([7], None), ([], Finish.STOP)]
    assert expected == _run([7, 7, 7, 8], stop=((7, 7, 8),))


def test_held_back_tokens_come_with_the_end_token() -> None:
    assert _run([7, END], stop=((7, 8),)) == [([], None), ([7], Finish.STOP)]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pieces_join_to_the_answer(limit: int) -> None:
    given = _run([7, 7, 7, 7], stop=((7, 7, 8),), limit=limit)
    assert [7] * limit == [token for piece, _ in given for token in piece]
