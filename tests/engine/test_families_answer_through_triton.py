"""The real server with an engine of each family: the ensemble's answers are transformers' own."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from mm_runtime.engine.reference.encoder_decoder import KINDS as TEXT_KINDS
from mm_runtime.engine.starts import decoder_start
from support.build_plans import serving_plan
from support.ensemble import Ensemble
from support.families import pictures, texts
from support.families.expected import ANSWER, KINDS, Upstream, picture
from support.families.pipeline import Pipeline, build
from support.families.words import END, tokenizer
from support.served import start_serving

pytestmark = pytest.mark.triton

QUESTION = "what is in the image ?"
TEXTS = ("translate to german : i see a red square", "a circle and two squares", "what ?")
QUICK = {"qwen2-vl", "t5"}
"""One of each kind in every run; the others start a server each and are marked slow."""

PICTURE_FAMILIES = sorted(set(KINDS) - {"llava"})  # LLaVA has tests of its own
TEXT_FAMILIES = sorted(set(TEXT_KINDS) - {"whisper"})


def _slow(families: list[str]) -> list[object]:
    return [
        family if family in QUICK else pytest.param(family, marks=pytest.mark.slow)
        for family in families
    ]


@pytest.fixture
def ask(tmp_path: Path, family: str) -> Iterator[tuple[Ensemble, Path, Pipeline]]:
    """A server of one family, its checkpoint, and the same engine in this process."""
    writer = texts if family in TEXT_FAMILIES else pictures
    checkpoint = writer.write(family, tmp_path / "checkpoint")
    directory = build(checkpoint, tmp_path / "store")
    serving = tmp_path / "serving.json"
    serving.write_text(serving_plan(directory.manifest.fingerprint).to_json())
    pipeline = Pipeline.load(directory)
    with start_serving(directory.root / "manifest.json", serving) as server:
        server.wait_until_ready()
        with Ensemble(server.grpc_url) as ensemble:
            yield ensemble, checkpoint, pipeline
    pipeline.loaded.engine.stop()


@pytest.mark.parametrize("family", _slow(PICTURE_FAMILIES))
def test_picture(ask: tuple[Ensemble, Path, Pipeline], family: str) -> None:
    """A picture with a question, streamed and whole; the text is that of transformers' tokens."""
    ensemble, checkpoint, pipeline = ask
    image = picture(100, 61, seed=1)
    pixels = np.asarray(image)[None, None]
    upstream = Upstream(family, checkpoint)
    facts = pipeline.directory.facts
    ids = pipeline.prepare(QUESTION, IMAGE_BYTES=pixels)["INPUT_ID"][0].tolist()
    token = facts.image_token_id
    ids = [token if one >= facts.text.vocabulary_size else one for one in ids]
    inputs = upstream.pictures([image])
    if family == "qwen2-vl":
        inputs["mm_token_type_ids"] = torch.tensor([[int(one == token) for one in ids]])
    if family == "mllama":
        seen = pipeline.prepare(QUESTION, IMAGE_BYTES=pixels)["CROSS_ATTENTION_MASK"]
        inputs["cross_attention_mask"] = torch.from_numpy(seen)
    answer = upstream.answer(ids, **inputs)
    expected = pipeline.preprocessor.codec.decode(answer)
    asked = {"image_bytes_input": pixels, "max_tokens": ANSWER}
    assert expected == ensemble.ask(QUESTION, **asked).text
    assert expected == ensemble.ask(QUESTION, stream=True, **asked).text
    assert expected != ensemble.ask(QUESTION, max_tokens=ANSWER).text


@pytest.mark.parametrize("family", _slow(TEXT_FAMILIES))
def test_text(ask: tuple[Ensemble, Path, Pipeline], family: str) -> None:
    """Texts of different lengths to an encoder-decoder, streamed and whole."""
    ensemble, checkpoint, _ = ask
    model = getattr(transformers, TEXT_KINDS[family]).from_pretrained(checkpoint).eval()
    words = tokenizer(ends=True)
    start = decoder_start(checkpoint)
    for text in TEXTS:
        ids = model.generate(
            input_ids=torch.tensor([words(text)["input_ids"]]),
            decoder_input_ids=torch.tensor([start]),
            max_new_tokens=ANSWER,
            do_sample=False,
        )[0].tolist()[len(start) :]
        answer = ids[: ids.index(END)] if END in ids else ids
        expected = words.decode(answer, skip_special_tokens=True)
        assert expected == ensemble.ask(text, max_tokens=ANSWER).text
        assert expected == ensemble.ask(text, max_tokens=ANSWER, stream=True).text
