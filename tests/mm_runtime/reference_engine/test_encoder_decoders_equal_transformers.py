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
from mm_runtime.serving.generate.request import Request, Wanted
from support.collecting_sink import answers_of
from support.engines import engine_starter
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
