"""Beam search in the Reference engine: every beam is one that transformers finds, in its order."""

from pathlib import Path

import numpy as np
import pytest
import transformers

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.encoder_decoder import KINDS, EncoderDecoderModel
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.generation import ANSWERS, join_pieces, read_request, write_piece
from mm_runtime.serving.generate.request import BeamOptions, Request
from support.cases import cases
from support.collecting_sink import CollectingSink
from support.engines import engine_starter, load_language_model
from support.families.expected import expected_beams
from support.families.texts import write
from support.families.words import END, SIZE

ANSWER = 14


def _requests(start: tuple[int, ...], options: BeamOptions | None) -> list[Request]:
    rng = np.random.default_rng(8)
    return [
        Request(
            ids=(*rng.integers(4, SIZE, int(rng.integers(2, 30))).tolist(), END),
            decoder_ids=start,
            max_tokens=ANSWER,
            end_ids=frozenset({END}),
            beams=options,
        )
        for _ in range(4)
    ]


@cases(
    "family options",
    {
        "t5": ("t5", BeamOptions(3)),
        "t5-to-the-best": ("t5", BeamOptions(2, 1.0, early_stopping=False)),
        "bart-long-answers": ("bart", BeamOptions(4, 2.0)),
        "mbart-five": ("mbart", BeamOptions(5, 0.5, early_stopping=False)),
    },
)
def test_every_beam(tmp_path: Path, family: str, options: BeamOptions) -> None:
    """All beams in their order, with requests that search none running beside them."""
    folder = write(family, tmp_path / family)
    complete = getattr(transformers, KINDS[family]).from_pretrained(folder).eval()
    start = (complete.config.decoder_start_token_id,)
    forced = complete.generation_config.forced_bos_token_id
    start += () if forced is None else (forced,)
    model = EncoderDecoderModel(
        Checkpoint(folder=folder, dtype="float32", slots=3, family=family, max_length=64)
    )
    requests = _requests(start, options)
    plain = _requests(start, None)[:2]
    with engine_starter(model)(max_batch_size=3, max_seq_len=64, max_num_tokens=8) as engine:
        alone = []
        for request in plain:
            sink = CollectingSink()
            engine.submit(request, sink)
            alone.append(sink.wait())
        sinks = [CollectingSink() for _ in (*requests, *plain)]
        for request, sink in zip((*requests, *plain), sinks, strict=True):
            engine.submit(request, sink)
        found = []
        for sink in sinks[: len(requests)]:
            sink.wait()
            found.append([list(beam.ids) for beam in sink.pieces[-1].beams])
        beside = [sink.wait() for sink in sinks[len(requests) :]]
    expected = [expected_beams(complete, request) for request in requests]
    assert len({tuple(beam) for beam in expected[0]}) == options.width
    assert (expected, alone) == (found, beside)


def test_tensors_of_beams(tmp_path: Path) -> None:
    """Answers of different lengths lie padded in one tensor, each with its own length and sum."""
    model = EncoderDecoderModel(
        Checkpoint(
            folder=write("t5", tmp_path / "t5"),
            dtype="float32",
            slots=1,
            family="t5",
            max_length=64,
        )
    )
    request = _requests((0,), BeamOptions(3, 0.0))[0]
    with engine_starter(model)(max_batch_size=1, max_seq_len=64, max_num_tokens=8) as engine:
        sink = CollectingSink()
        engine.submit(request, sink)
        sink.wait()
    beams = sink.pieces[-1].beams
    outputs = write_piece(join_pieces(sink.pieces, prompt=(0,)), (), ANSWERS)
    lengths = outputs["sequence_length"][0].tolist()
    rows = [row[:length] for row, length in zip(outputs["output_ids"][0], lengths, strict=True)]
    assert [[0, *beam.ids] for beam in beams] == [row.tolist() for row in rows]
    sums = outputs["cum_log_probs"][0].tolist()
    assert sums == pytest.approx([beam.cumulative for beam in beams])
    assert sums == sorted(sums, reverse=True)


TENSORS = {
    "input_ids": np.array([[5, 6]], np.int32),
    "input_lengths": np.array([[2]], np.int32),
    "request_output_len": np.array([[4]], np.int32),
}


@cases("width", {"more": 3, "none": 0})
def test_other_widths_than_built_are_refused(width: int) -> None:
    """More beams than the engine was built for have no memory planned for them."""
    with pytest.raises(RequestError, match=f"beam_width is {width}; 1 to 2 are allowed"):
        read_request(
            {**TENSORS, "beam_width": np.array([[width]], np.int32)},
            end_ids=frozenset({END}),
            vocabulary_size=SIZE,
            fresh_seed=1,
            max_beam_width=2,
        )


def test_decoders_search_no_beams() -> None:
    """Where the Reference engine has no search, a request for it is refused before it runs."""
    request = Request(ids=(5,), max_tokens=1, end_ids=frozenset(), beams=BeamOptions(2))
    with pytest.raises(RequestError, match="only encoder-decoders search with beams"):
        load_language_model().check(request)
