"""VILA, for which transformers has no class: answers are those of the language model inside."""

from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from mm_api.families import FAMILIES
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.serving.generate.request import Request
from mm_runtime.serving.prompts.questions import PromptQuestions
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.writers import PromptWriter
from support.collecting_sink import CollectingSink
from support.engines import engine_starter
from support.families.checkpoints import HIDDEN
from support.families.images import write
from support.families.words import END, SIZE

ROWS = 4
"""3 x 3 patches, padded and put together 2 x 2."""


def test_answers_equal_the_language_models(tmp_path: Path) -> None:
    folder = write("vila", tmp_path / "vila")
    model = LanguageModel(
        Checkpoint(folder=folder, dtype="float32", slots=2, max_length=96, family="vila")
    )
    codec = TextCodec(folder / "llm")
    style = FAMILIES["vila"].prompt
    assert style is not None
    writer = PromptQuestions(
        codec=codec,
        prompts=PromptWriter(style.wrapper, codec.begin_token, style),
        style=style,
        image_token_id=None,
        vocabulary_size=SIZE,
    )
    ids = writer.write("what is in the image ?", None, (ROWS, ROWS), video=False).ids
    assert list(range(SIZE, SIZE + 2 * ROWS)) == [one for one in ids if one >= SIZE]
    table = np.random.default_rng(5).normal(size=(2 * ROWS, HIDDEN)).astype(np.float32)
    request = Request(tuple(ids), 12, frozenset({END}), table=table)
    complete = AutoModelForCausalLM.from_pretrained(folder / "llm").eval()
    embedded = model.embed(request.ids, table)[None].clone()
    with torch.no_grad():
        expected = complete.generate(
            inputs_embeds=embedded,
            attention_mask=torch.ones(embedded.shape[:2], dtype=torch.long),
            max_new_tokens=12,
            do_sample=False,
        )[0].tolist()
    expected = expected[: expected.index(END)] if END in expected else expected
    with engine_starter(model)(max_batch_size=2, max_seq_len=96) as engine:
        sink = CollectingSink()
        engine.submit(request, sink)
        assert expected == sink.wait()
