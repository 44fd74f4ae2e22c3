"""The question to an engine that was just built, and what it is sure to answer.

The parts of the server run in this process, connected as its ensemble connects them.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from mm_api.documents.engine_manifest import GoldenPrompt
from mm_runtime.engine_build.commands.in_process import COUNT, LOGITS, TOKENS, greedy, in_process
from mm_runtime.images.sample import sample_image
from mm_runtime.serving.bls.pipeline import Outputs
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.preprocess.audio.prefixes import Prefixes, accepts_audio
from mm_runtime.serving.preprocess.audio.tones import sample_audio
from mm_runtime.serving.prompts.tokens import TextCodec

TEXT = "What is in the image?"
SENTENCE = "translate English to German: the house is wonderful ."
"""Of engines that read text alone: from T5's paper. Others translate it or continue it."""

MOST_TOKENS = 8

SURE = {"float32": 0.1}
UNSURE = 1.0
"""By how much a token's logit must lead the next one's to be kept. Chosen far above what rounding
does to logits of small models on other processors and in other batches; that was not measured."""


def golden_prompt_of(directory: EngineDirectory) -> GoldenPrompt | None:
    """Return the question and what the engine is sure to answer; None: it is sure of nothing."""
    sees, listens = directory.vision is not None, accepts_audio(directory)
    text = TEXT if sees else SENTENCE
    if listens:
        text = Prefixes.load(directory, TextCodec(directory.tokenizer)).write(None)
    inputs = greedy(text, MOST_TOKENS)
    if sees:
        inputs["image_bytes_input"] = sample_image()[np.newaxis, np.newaxis]
    if listens:
        inputs["WAV"] = sample_audio()[np.newaxis]
    with in_process(directory) as models:
        pieces = models.answer(inputs)
    lead = SURE.get(directory.manifest.plan.engine.dtype, UNSURE)
    tokens = list(_sure(pieces, lead))
    if not tokens:
        return None
    return GoldenPrompt(
        text=text,
        images=int(sees),
        audio_clips=1 if listens else None,
        tokens=tokens,
        answer=models.decoded(tokens),
    )


def _sure(pieces: Sequence[Outputs], lead: float) -> Iterator[int]:
    """Yield tokens up to the first whose logit does not lead by so much."""
    for piece in pieces:
        count = int(piece[COUNT].item())
        logits = piece[LOGITS].reshape(-1, piece[LOGITS].shape[-1])
        for token, row in zip(piece[TOKENS].reshape(-1)[:count], logits, strict=False):
            first, second = np.partition(row, -2)[:-3:-1]
            if first - second < lead or int(row.argmax()) != token:
                return
            yield int(token)
