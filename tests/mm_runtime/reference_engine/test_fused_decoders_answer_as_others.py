"""Decoders of Llama's shape with fused weights answer as transformers' own modules.

Here with kernels in plain torch; `tests/gpu` compares those of a GPU with them.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from mm_api.captured_passes import captured_passes, doubled, part_sizes
from mm_api.families import FAMILIES
from mm_runtime.reference_engine.fused.decoder import FusedDecoder
from mm_runtime.reference_engine.fused.kernels import Heads, Stored
from mm_runtime.reference_engine.fused.opening import open_kernels
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.load import LoadedEngine, load_engine, load_model
from mm_runtime.reference_engine.model import Part
from mm_runtime.serving.device import CPU
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import Request
from support.collecting_sink import CollectingSink, answers_of
from support.engines import MAX_LENGTH, SLOTS, engine_starter
from support.families.expected import noise_image
from support.families.pipeline import Pipeline
from support.families.shared import shared_family
from support.fused_models import fused_model
from support.plain_kernels import PlainKernels
from support.representatives import others_are_slow

SIZES = [(100, 61), (28, 28), (37, 150)]
QUESTION = "what is in the image ?"


@pytest.fixture(scope="module")
def fused() -> LanguageModel:
    return fused_model(SLOTS, MAX_LENGTH)


def answers(model: LanguageModel, requests: list[Request]) -> list[list[int]]:
    with engine_starter(model)(prompt_rows=3) as engine:
        return answers_of(engine, requests)


def requests(count: int, tokens: int = 20) -> list[Request]:
    """Return requests of different lengths: they end in turn, and others take their slots."""
    return [
        Request(
            ids=tuple(range(10 + at, 25 + 7 * at)),
            max_tokens=tokens + 5 * (at % 3),
            end_ids=frozenset(),
        )
        for at in range(count)
    ]


@pytest.mark.parametrize("rows", [5, 64, 100])
def test_a_part_beside_tokens_is_read_in_their_pass(
    fused: LanguageModel, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Each layer's weights are read once for both, and both get what they get alone."""
    decoder = fused._fused
    assert decoder is not None
    prompt = fused.embed(range(5, 5 + rows), None)
    after = fused.run([], [], Part(0, prompt)).read.clone()
    fused.run([9, 11], [0, 0])
    alone = fused.run([21, 22], [1, 1]).decoded.clone()
    layers: list[int] = []
    gate = decoder._kernels.gate
    monkeypatch.setattr(
        decoder._kernels,
        "gate",
        lambda products, out: layers.append(len(out)) or gate(products, out),
    )

    passed = fused.run([21, 22], [1, 1], Part(0, prompt))

    assert len(layers) == len(decoder._weights.layers)
    assert torch.allclose(passed.decoded, alone, atol=1e-4)
    assert torch.allclose(passed.read, after, atol=1e-4)


@pytest.mark.parametrize(
    ("tokens", "rows"), [((21, 22, 23), 0), ((21, 22, 23), 60), ((), 60), ((), 400)]
)
def test_a_pass_chooses_the_likeliest_tokens(
    fused: LanguageModel, tokens: tuple[int, ...], rows: int
) -> None:
    part = Part(0, fused.embed([5 + at % 80 for at in range(rows)], None)) if rows else None

    passed = fused.run(tokens, [0] * len(tokens), part)

    likeliest = passed.likeliest
    assert likeliest is not None
    wanted = fused.logits(torch.cat((passed.decoded, passed.read[-1:])))
    assert torch.allclose(likeliest.logits, wanted, atol=1e-4)
    assert likeliest.tokens.tolist() == wanted.argmax(dim=-1).tolist()
    assert likeliest.fetch(len(wanted))() == likeliest.tokens.tolist()


def test_a_pass_reads_what_the_one_before_chose(fused: LanguageModel) -> None:
    fused.run([9, 11, 13], [0, 0, 0])
    follow = fused._fused_pass
    drawn = torch.tensor([31, -1, 33])
    for tokens in ([31, 0, 33], drawn):
        states = follow(tokens, [1, 1, 1], None).decoded.clone()
        if tokens is not drawn:
            wanted = states
    assert torch.equal(states, wanted)

    chosen = fused.run([9, 11, 13], [0, 0, 0]).likeliest
    assert chosen is not None
    known = chosen.tokens.tolist()
    states = follow(chosen.tokens, [1, 1, 1], None).decoded.clone()
    assert torch.equal(states, follow(known, [1, 1, 1], None).decoded)


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_answers_are_those_of_the_modules(
    fused: LanguageModel, language_model: LanguageModel, count: int
) -> None:
    assert answers(fused, requests(count)) == answers(language_model, requests(count))


def test_logits_are_those_of_the_modules(
    fused: LanguageModel, language_model: LanguageModel
) -> None:
    ids = [5 + at % 80 for at in range(400)]
    found = []
    for model in (fused, language_model):
        rows = model.embed(ids, None)
        first = model.logits(model.run([], [], Part(0, rows[:250])).read)
        second = model.logits(model.run([], [], Part(250, rows[250:])).read)
        then = model.logits(model.run([7], [400]).decoded)
        found.append(torch.cat((first, second, then)))

    assert torch.allclose(found[0], found[1], atol=1e-4)


def test_a_part_longer_than_any_pass(
    fused: LanguageModel, language_model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = fused._fused
    assert decoder is not None
    monkeypatch.setattr(decoder, "_parts", [16, 32, 64])
    rows = fused.embed(range(5, 85), None)

    states = fused.run([], [], Part(0, torch.cat((rows, rows))[:150])).read

    wanted = language_model.run([], [], Part(0, torch.cat((rows, rows))[:150])).read
    assert torch.allclose(states, wanted, atol=1e-4)


def test_unused_rows_are_stored_nowhere() -> None:
    heads = Heads(queries=4, keys=2, size=8, scale=1.0)
    stored = Stored(torch.zeros(3, 2, 5, 8), torch.zeros(3, 2, 5, 8))
    inputs = torch.tensor([[1, 4, 2, 4], [0, -1, 0, 0]], dtype=torch.int32)

    PlainKernels().rotate(torch.ones(2, heads.width), torch.ones(5, 8), inputs, stored, heads)

    assert stored.values.nonzero()[:, [0, 2]].unique(dim=0).tolist() == [[2, 4]]
    assert stored.keys.nonzero()[:, [0, 2]].unique(dim=0).tolist() == [[2, 4]]


def test_a_moved_request_keeps_its_keys(fused: LanguageModel) -> None:
    rows = fused.embed(range(10, 40), None)
    fused.run([9, 9, 9], [3, 3, 3], Part(0, rows))
    wanted = fused.run([1, 2, 3, 4], [5, 5, 5, 30]).decoded[3].clone()

    fused.move(3, 1, 31)

    found = fused.run([1, 4], [5, 30]).decoded[1]
    assert torch.allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("limit", "expected"), [(8, [8]), (100, [16, 32, 64, 100]), (128, [16, 32, 64, 128])]
)
def test_part_sizes(limit: int, expected: list[int]) -> None:
    assert part_sizes(limit) == expected
    assert part_sizes(4096)[-1] == 1024


@pytest.mark.parametrize(("slots", "length"), [(1, 20), (3, 100), (16, 1024)])
def test_the_plan_counts_every_captured_pass(slots: int, length: int) -> None:
    """Each takes the driver's memory: decoding rows, parts of prompts, and both together."""
    fused = fused_model(slots, length)._fused
    assert fused is not None
    assert len(fused._passes) == captured_passes(slots, length)


@pytest.mark.parametrize(
    ("first", "last", "expected"), [(1, 1, [1]), (1, 6, [1, 2, 4, 6]), (256, 100, [100])]
)
def test_decoding_rows_are_doubled(first: int, last: int, expected: list[int]) -> None:
    assert doubled(first, last) == expected


def test_a_processor_has_no_kernels() -> None:
    """There transformers' modules compute: they are faster than kernels in plain torch."""
    assert open_kernels(CPU) is None


DECODERS = [name for name, one in FAMILIES.items() if one.checkpoint.decoder is not None]
FUSED = ("llava-next", "llava-onevision", "qwen2-vl", "vila")


@pytest.fixture(scope="module", params=others_are_slow(FUSED, "qwen2-vl"))
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, LoadedEngine]]:
    directory = shared_family(tmp_path_factory, request.param).engine
    pipeline = Pipeline.load(directory)
    loaded = load_engine(
        directory, max_queue_size=16, cancellation_check_seconds=1.0, kernels=PlainKernels()
    )
    loaded.engine.start()
    yield pipeline, loaded
    loaded.engine.stop()
    pipeline.loaded.engine.stop()


def test_families_answer_alike(family: tuple[Pipeline, LoadedEngine]) -> None:
    pipeline, loaded = family
    assert isinstance(loaded.engine._model, LanguageModel)
    assert isinstance(loaded.engine._model._fused, FusedDecoder)
    requested = [
        pipeline.request(QUESTION, IMAGE_BYTES=np.asarray(noise_image(*size, seed=1))[None, None])
        for size in SIZES
    ]
    assert answers_of(loaded.engine, requested) == answers_of(pipeline.loaded.engine, requested)


def test_families_answer_alike_when_passes_begin_overlapped(
    family: tuple[Pipeline, LoadedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: prompts begin while others end with their only token, or with a later one."""
    pipeline, loaded = family
    requested = [
        replace(
            pipeline.request(
                QUESTION, IMAGE_BYTES=np.asarray(noise_image(*size, seed))[None, None]
            ),
            max_tokens=1 + 7 * (seed % 3),
        )
        for seed, size in enumerate(SIZES * 3)
    ]
    monkeypatch.setattr(LanguageModel, "launches", True)
    assert answers_of(loaded.engine, requested) == answers_of(pipeline.loaded.engine, requested)


def test_rotations_outside_a_table_are_refused(family: tuple[Pipeline, LoadedEngine]) -> None:
    """A distance that would rotate by positions that do not exist, on any device."""
    pipeline, _ = family
    if pipeline.directory.facts.family != "qwen2-vl":
        return
    ids = tuple(range(10, 20))
    for delta in (1, -11):
        with pytest.raises(RequestError, match=rf"mrope_position_deltas is {delta}"):
            pipeline.loaded.engine.submit(
                Request(ids=ids, max_tokens=1, end_ids=frozenset(), rotation_delta=delta),
                CollectingSink(),
            )


@pytest.mark.parametrize("family", others_are_slow(DECODERS, "llava"))
def test_families_say_whether_passes_are_fused(
    family: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A plan counts what such passes keep; it cannot look into a checkpoint's classes."""
    model = load_model(shared_family(tmp_path_factory, family).engine, kernels=PlainKernels())
    found = isinstance(model, LanguageModel) and model._fused is not None
    assert FAMILIES[family].fused_passes == found
