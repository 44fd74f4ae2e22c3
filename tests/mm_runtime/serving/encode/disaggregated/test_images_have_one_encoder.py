"""Which encoder gets an image, and for how long one that failed is left alone."""

from hypothesis import given
from hypothesis import strategies as st

from mm_api.rendezvous import order
from mm_runtime.serving.encode.disaggregated.backoff import FIRST_SECONDS, LONGEST_SECONDS, Backoff

ENCODERS = [f"10.0.0.{number}:8001" for number in range(1, 6)]
KEYS = [number.to_bytes(32) for number in range(1000)]
IMAGES = st.binary(min_size=1, max_size=64)


@given(IMAGES, st.permutations(ENCODERS))
def test_all_servers_agree(key: bytes, shuffled: list[str]) -> None:
    assert order(key, ENCODERS) == order(key, shuffled)


@given(IMAGES, st.sampled_from(ENCODERS))
def test_only_images_of_an_encoder_that_left_move(key: bytes, gone: str) -> None:
    rest = [one for one in ENCODERS if one != gone]
    assert [one for one in order(key, ENCODERS) if one != gone] == order(key, rest)


def test_images_spread() -> None:
    """Of 1,000 images each of five encoders is first for between 150 and 250."""
    first = [order(key, ENCODERS)[0] for key in KEYS]
    counts = {one: first.count(one) for one in ENCODERS}
    assert [one for one, count in counts.items() if not 150 <= count <= 250] == []


def test_rests_grow_and_end() -> None:
    """Each failure after a rest doubles the next one up to a bound; an answer ends all of it."""
    rests, now, lengths = Backoff(), 0.0, []
    for _ in range(7):
        rests.failed("a", now)
        rests.failed("a", now)  # others of the same moment
        length = next(s for s in (1, 2, 4, 8, 16, 30) if not rests.is_backing_off("a", now + s))
        lengths.append(length)
        now += length
    assert lengths == [FIRST_SECONDS, 2, 4, 8, 16, LONGEST_SECONDS, LONGEST_SECONDS]
    rests.failed("a", now)
    assert not rests.is_backing_off("b", now)
    rests.answered("a")
    assert not rests.is_backing_off("a", now)
    rests.failed("a", now)
    assert not rests.is_backing_off("a", now + FIRST_SECONDS)
