"""Keys and values of earlier requests are found by prompts that begin alike, and by no others."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.prefix_cache import BLOCK, PrefixCache, Rows, block_names
from mm_runtime.serving.generate.request import Request, Sampling
from support.cases import cases
from support.collecting_sink import CollectingSink
from support.engines import MAX_LENGTH, SLOTS, engine_starter
from support.plain_kernels import PlainKernels
from support.tiny_llava import CHECKPOINT, VOCABULARY

HIDDEN = 128
ROWS = 20
"""Features of an image: more than a block, and no multiple of one."""

WIDTH = 4
"""Numbers that rotate a position."""

PROMPT = tuple(range(5, 15)) + tuple(range(VOCABULARY, VOCABULARY + ROWS)) + tuple(range(15, 35))
IMAGE = np.random.default_rng(3).normal(size=(ROWS, HIDDEN)).astype(np.float16)


def requested(
    ids: tuple[int, ...] = PROMPT, *, image: int | None = 77, tokens: int = 12, **more: object
) -> Request:
    row_ids = None
    if image is not None:
        row_ids = np.where(np.array(ids) >= VOCABULARY, image, 0).astype(np.uint64)
    request = Request(ids=ids, table=IMAGE, row_ids=row_ids, max_tokens=tokens, end_ids=frozenset())
    return replace(request, **more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Run on one thread, which is faster for models this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def loaded(**more: object) -> LanguageModel:
    given: dict[str, object] = {
        "folder": CHECKPOINT,
        "family": "llava",
        "dtype": "float32",
        "slots": SLOTS,
        "max_length": MAX_LENGTH,
        "reuse_bytes": 8 << 20,
    }
    return LanguageModel(Checkpoint(**{**given, **more}))  # type: ignore[arg-type]


@pytest.fixture(
    params=[
        pytest.param(dict, id="modules"),
        pytest.param(lambda: {"kernels": PlainKernels()}, id="fused"),
    ]
)
def keeping(request: pytest.FixtureRequest) -> LanguageModel:
    make: Callable[[], dict[str, object]] = request.param
    return loaded(**make())


def answer(model: LanguageModel, request: Request) -> tuple[list[int], int]:
    sink = CollectingSink()
    with engine_starter(model)(prompt_rows=7) as engine:
        engine.submit(request, sink)
        return sink.wait(), sink.pieces[-1].reused


def test_the_next_turn_computes_what_is_new(
    keeping: LanguageModel, language_model: LanguageModel
) -> None:
    first = requested(tokens=20)
    said, reused = answer(keeping, first)
    assert (said, reused) == (answer(language_model, first)[0], 0)

    answer(keeping, requested(tuple(range(30, 100))))  # in the same slot
    second = requested((*PROMPT, *said, *range(40, 50)))
    known = len(PROMPT) + len(said) - 1  # the last token was chosen, and never computed
    assert answer(keeping, second) == (answer(language_model, second)[0], known // BLOCK * BLOCK)


def test_the_last_token_is_always_computed(keeping: LanguageModel) -> None:
    """What follows a prompt comes from its last token's state, which no cache has."""
    prompt = tuple(range(5, 5 + 2 * BLOCK))
    answers = [answer(keeping, requested(prompt)) for _ in range(2)]
    assert [reused for _, reused in answers] == [0, BLOCK]
    assert answers[0][0] == answers[1][0]


@cases(
    "changed reused",
    {
        "nothing": ({}, 48),
        "image": ({"image": 78}, 0),
        "image-of-no-id": ({"image": None}, 0),
        "salt": ({"salt": "ann"}, 0),
        "token": ({"ids": (*PROMPT[:33], 60, *PROMPT[34:])}, 32),
        "sampling": ({"sampling": Sampling(top_k=5, seed=2)}, 48),
    },
)
def test_what_differs_is_not_found(changed: dict[str, object], reused: int) -> None:
    """Whatever keys and values depend on is part of the name; how tokens are chosen is not."""
    model = loaded()
    answer(model, requested())
    assert answer(model, requested(**changed))[1] == reused  # type: ignore[arg-type]


def test_features_of_unknown_images_are_not_kept() -> None:
    """Nothing says that features without an id are the same in the next prompt."""
    model = loaded()
    assert [answer(model, requested(image=None))[1] for _ in range(2)] == [0, 0]


def test_a_prompt_that_is_dropped_is_kept_as_far_as_it_came() -> None:
    model = loaded()
    long = requested(tuple(5 + at % 90 for at in range(200)))
    gone = CollectingSink()
    with engine_starter(model)(prompt_rows=1) as engine:
        # Beside an answer prompts are read in parts.
        running = CollectingSink(lambda _: setattr(gone, "walked_away", engine.counts().steps > 12))
        engine.submit(requested(tokens=60), running)
        engine.submit(long, gone)
        running.wait()
        gone.wait_ended()
    assert gone.was_cancelled
    assert 0 < answer(model, long)[1] < len(long.ids) - BLOCK


def test_an_answer_that_is_dropped_is_kept(language_model: LanguageModel) -> None:
    model = loaded()
    gone = CollectingSink(lambda _: setattr(gone, "walked_away", len(gone.ids) >= 40))
    with engine_starter(model)() as engine:
        beside = CollectingSink()
        engine.submit(requested(tokens=200), gone)
        engine.submit(requested(tuple(range(20, 70)), tokens=60), beside)
        gone.wait_ended()
        beside.wait()
    following = requested((*PROMPT, *gone.ids, *range(5, 15)))
    said, reused = answer(model, following)
    assert said == answer(language_model, following)[0]
    assert reused > len(PROMPT) + BLOCK


def test_the_oldest_blocks_make_room() -> None:
    """Memory is bounded: prompts that were not used for longest are forgotten, from their ends."""
    block = loaded()._prefixes.block_bytes  # type: ignore[union-attr]
    model = loaded(reuse_bytes=6 * block)
    prompts = [tuple(range(first, first + 2 * BLOCK + 1)) for first in (5, 6, 7, 8)]
    for prompt in prompts[:3]:
        answer(model, requested(prompt, tokens=1))
    assert answer(model, requested(prompts[0], tokens=1))[1] == 2 * BLOCK
    answer(model, requested(prompts[3], tokens=1))
    found = [answer(model, requested(one, tokens=1))[1] for one in (prompts[0], prompts[2])]
    assert found == [2 * BLOCK] * 2
    counts = model.prefixes
    assert counts is not None
    assert (counts.evictions, counts.used_bytes) == (2, 6 * block)


def test_a_prompt_is_kept_once_its_first_token_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the token and its way out 1.9 ms passed on a GPU (600 positions, H100)."""
    model, sink, sent = loaded(), CollectingSink(), []
    keep = LanguageModel.keep

    def noted(*given: Any) -> None:
        sent.append(len(sink.ids))
        keep(*given)

    monkeypatch.setattr(LanguageModel, "keep", noted)
    with engine_starter(model)() as engine:
        engine.submit(requested(tokens=3), sink)
        sink.wait()
    assert sent == [1, 3]


def test_a_cache_that_fails_changes_no_answer(
    language_model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded()

    def broken(*_: object) -> None:
        raise RuntimeError("no memory")

    for name in ("write", "keep"):
        monkeypatch.setattr(PrefixCache, name, broken)
    assert answer(model, requested()) == answer(language_model, requested())


Made = tuple[int, str, int | None]
IDS = st.lists(
    st.sampled_from([5, 6, 7, 8, VOCABULARY, VOCABULARY + 1]), max_size=4 * BLOCK
) | st.lists(st.integers(5, 8), min_size=BLOCK, max_size=4 * BLOCK)


MADE_BY = st.tuples(
    st.sampled_from([0, 1, 1, 2]),
    st.sampled_from(["", "", "ann"]),
    st.sampled_from([None, None, 0]),
)
"""Image, salt and adapter of a request."""


@given(
    one=IDS, behind=IDS, shared=st.integers(0, 3 * BLOCK), first=MADE_BY, second=st.none() | MADE_BY
)
def test_equal_names_are_of_equal_beginnings(
    one: list[int], behind: list[int], shared: int, first: Made, second: Made | None
) -> None:
    def named(ids: list[int], image: int, salt: str, adapter: int | None) -> list[bytes]:
        request = requested(tuple(ids), image=image, salt=salt, adapter=adapter)
        return block_names(request, ids, vocabulary=VOCABULARY)

    other, second = one[:shared] + behind, second or first
    expected = 0
    for at in range(min(len(one), len(other)) // BLOCK):
        part = slice(at * BLOCK, (at + 1) * BLOCK)
        same_images = first[0] == second[0] != 0 or max(one[part]) < VOCABULARY
        if one[part] != other[part] or not same_images or first[1:] != second[1:]:
            break
        expected += 1
    pairs = zip(named(one, *first), named(other, *second), strict=False)
    assert sum(a == b for a, b in pairs) == expected


def test_rotations_are_part_of_a_name() -> None:
    """Positions of a video depend on its pace; an answer's rotations come from another hand."""
    ids = tuple(range(5, 5 + 2 * BLOCK))
    turns = np.random.default_rng(1).normal(size=(2 * BLOCK + 3) * WIDTH).astype(np.float32)
    other = turns.copy()
    other[BLOCK * WIDTH] += 1

    def named(rotation: np.ndarray | None, tokens: tuple[int, ...] = ids) -> list[bytes]:
        request = requested(ids, image=None, rotation=rotation)
        return block_names(request, tokens, vocabulary=VOCABULARY, rotation_width=WIDTH)

    assert named(turns) == named(turns.copy(), (*ids, *range(5, 5 + BLOCK)))
    assert [a == b for a, b in zip(named(turns), named(other), strict=True)] == [True, False]
    assert not set(named(turns)) & set(named(None))
    assert len(named(None, (*ids, *range(5, 5 + BLOCK)))) == 3


class _Memory:
    """Slots whose every value names its position and what was written there."""

    def __init__(self, slots: int, length: int) -> None:
        self.stored = torch.zeros((2, 1, slots, 1, length, 1), dtype=torch.float64)

    def rows(self, slot: int, start: int, stop: int) -> Rows:
        keys, values = self.stored[:, :, slot, :, start:stop]
        return keys, values


@settings(max_examples=60)
@given(
    prompts=st.lists(st.lists(st.integers(0, 1), max_size=6), max_size=30),
    capacity=st.integers(1, 7),
)
def test_blocks_are_what_they_were(prompts: list[list[int]], capacity: int) -> None:
    memory = _Memory(2, 6 * BLOCK)
    cache = PrefixCache(memory, limit_bytes=1)
    cache = PrefixCache(memory, limit_bytes=capacity * cache.block_bytes)
    for prompt in prompts:
        names = [bytes(prompt[: at + 1]) for at in range(len(prompt))]
        known = cache.find(names)
        memory.stored[:, :, 1] = -1
        cache.write(names[:known], 1)
        content = [int.from_bytes(b"\1" + name) for name in names]
        for at, value in enumerate(content):
            part = slice(at * BLOCK, (at + 1) * BLOCK)
            assert (memory.stored[:, :, 1, :, part] == (value if at < known else -1)).all()
            memory.stored[:, :, 0, :, part] = value
        cache.keep(names, 0)
        assert cache.find(names) == min(len(names), capacity)
        assert cache.counts.used_bytes <= capacity * cache.block_bytes
