"""Encoder-decoders in the Reference engine: greedy answers equal `transformers.generate`."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers.generation import GenerationMixin

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.encoder_decoder import KINDS, EncoderDecoderModel
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.generation import ANSWERS, join_pieces, read_request, write_piece
from mm_runtime.serving.generate.request import BeamOptions, Request, Wanted
from support.cases import cases
from support.collecting_sink import answers_of, beams_of, submitted
from support.engines import engine_starter, load_language_model
from support.families.expected import expected_beams
from support.families.pipeline import Pipeline, build
from support.families.texts import AUDIO_POSITIONS, MEL_BINS, SUPPRESSED, write
from support.families.words import END, SIZE
from support.tiny_t5 import CHECKPOINT, sentences

SLOTS = 3
REQUESTS = 7
ANSWER = 20


def _requests(family: str, model: transformers.PreTrainedModel) -> list[Request]:
    rng = np.random.default_rng(3)
    start = model.generation_config.decoder_start_token_id or model.config.decoder_start_token_id
    forced = getattr(model.config, "forced_bos_token_id", None)
    forced = model.generation_config.forced_bos_token_id if forced is None else forced
    prompt = (start,) if forced is None else (start, forced)
    requests = []
    for number in range(REQUESTS):
        ids = (*rng.integers(4, SIZE, int(rng.integers(2, 60))).tolist(), END)
        audio = rng.normal(size=(2 * AUDIO_POSITIONS, MEL_BINS)).astype(np.float32)
        requests.append(
            Request(
                ids=() if family == "whisper" else ids,
                features=audio if family == "whisper" else None,
                decoder_ids=prompt if family != "whisper" else (start, *range(5, 5 + number)),
                max_tokens=ANSWER,
                end_ids=frozenset({END}),
            )
        )
    return requests


def _expected(model: transformers.PreTrainedModel, request: Request) -> list[int]:
    if request.features is None:
        inputs = {"input_ids": torch.tensor([request.ids])}
    else:
        inputs = {"input_features": torch.from_numpy(request.features.T.copy())[None]}
    # Whisper's own generate() cuts audio into windows; this is the one below it.
    ids = GenerationMixin.generate(
        model,
        **inputs,
        decoder_input_ids=torch.tensor([request.decoder_ids]),
        max_new_tokens=request.max_tokens,
        do_sample=False,
    )[0].tolist()
    answer = ids[len(request.decoder_ids) :]
    return answer[: answer.index(END)] if END in answer else answer


def opened(folder: Path, family: str, slots: int = 1, max_length: int = 64) -> EncoderDecoderModel:
    return EncoderDecoderModel(
        Checkpoint(
            folder=folder, family=family, dtype="float32", slots=slots, max_length=max_length
        )
    )


@pytest.mark.parametrize("family", sorted(KINDS))
def test_mixed_requests(tmp_path: Path, family: str) -> None:
    folder = write(family, tmp_path / family)
    complete = getattr(transformers, KINDS[family]).from_pretrained(folder).eval()
    model = opened(folder, family, slots=SLOTS)
    requests = _requests(family, complete)
    expected = [_expected(complete, request) for request in requests]
    assert len({tuple(answer) for answer in expected}) > 1  # the input matters
    with engine_starter(model)(max_batch_size=SLOTS, max_seq_len=64, max_num_tokens=4) as engine:
        assert expected == answers_of(engine, requests)


def test_questions_have_no_rules(tmp_path: Path) -> None:
    """The token of silence is among those that no answer holds; its share is the model's own."""
    folder = write("whisper", tmp_path / "whisper")
    complete = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    model = opened(folder, "whisper")
    start = complete.generation_config.decoder_start_token_id
    audio = np.random.default_rng(3).normal(size=(2 * AUDIO_POSITIONS, MEL_BINS))
    request = Request(
        (),
        1,
        frozenset({END}),
        features=audio.astype(np.float32),
        decoder_ids=(start,),
        wanted=Wanted(generation_logits=True),
    )
    with torch.no_grad():
        found = model.step(model.open(request), torch.tensor([[start]]), 0)
        expected = complete(
            input_features=torch.from_numpy(audio.astype(np.float32).T.copy())[None],
            decoder_input_ids=torch.tensor([[start]]),
        ).logits[0]

    torch.testing.assert_close(found, expected)
    assert found[:, list(SUPPRESSED)].isfinite().all()
    assert found[:, list(SUPPRESSED)].min() > -100


def test_bad_requests(tmp_path: Path) -> None:
    model = opened(write("t5", tmp_path / "t5"), "t5", max_length=8)
    for words, request in {
        "decoder_input_ids is missing": Request((5,), 1, frozenset()),
        "the text has 9 tokens; 1 to 8": Request((5,) * 9, 1, frozenset(), decoder_ids=(0,)),
        "input_ids must be 0 to 63": Request((64,), 1, frozenset(), decoder_ids=(0,)),
        "takes no images": Request((5,), 1, frozenset(), table=np.zeros((1, 32), np.float32)),
    }.items():
        with pytest.raises(RequestError, match=words):
            model.check(request)


BEAMS_ANSWER = 14


def _beams_requests(start: tuple[int, ...], options: BeamOptions | None) -> list[Request]:
    rng = np.random.default_rng(8)
    return [
        Request(
            ids=(*rng.integers(4, SIZE, int(rng.integers(2, 30))).tolist(), END),
            decoder_ids=start,
            max_tokens=BEAMS_ANSWER,
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
    folder = write(family, tmp_path / family)
    complete = getattr(transformers, KINDS[family]).from_pretrained(folder).eval()
    start = (complete.config.decoder_start_token_id,)
    forced = complete.generation_config.forced_bos_token_id
    start += () if forced is None else (forced,)
    model = opened(folder, family, slots=SLOTS)
    requests = _beams_requests(start, options)
    plain = _beams_requests(start, None)[:2]
    with engine_starter(model)(max_batch_size=3, max_seq_len=64, max_num_tokens=8) as engine:
        alone = [answer for one in plain for answer in answers_of(engine, [one])]
        sinks = submitted(engine, (*requests, *plain))
        found = beams_of(sinks[: len(requests)])
        beside = [sink.wait() for sink in sinks[len(requests) :]]
    expected = [expected_beams(complete, request) for request in requests]
    assert len({tuple(beam) for beam in expected[0]}) == options.width
    assert (expected, alone) == (found, beside)


def test_tensors_of_beams(tmp_path: Path) -> None:
    model = opened(write("t5", tmp_path / "t5"), "t5")
    request = _beams_requests((0,), BeamOptions(3, 0.0))[0]
    with engine_starter(model)(max_batch_size=1, max_seq_len=64, max_num_tokens=8) as engine:
        (sink,) = submitted(engine, [request])
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
    request = Request(ids=(5,), max_tokens=1, end_ids=frozenset(), beams=BeamOptions(2))
    with pytest.raises(RequestError, match="only encoder-decoders search with beams"):
        load_language_model().check(request)


def test_sentences(tmp_path: Path) -> None:
    """Every committed sentence is translated word for word; two hold pairs never trained on."""
    pipeline = Pipeline.load(build(CHECKPOINT, tmp_path / "store"))
    try:
        known = sentences()
        found = [
            pipeline.preprocessor.codec.decode(pipeline.query(sentence.prompt))
            for sentence in known
        ]
    finally:
        pipeline.loaded.engine.stop()
    assert [sentence.german for sentence in known] == found
