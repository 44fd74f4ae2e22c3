"""Ask an engine that was just built one question, and keep the answer that it is sure of.

The parts of the server run in this process, connected as its ensemble connects them. Pods of the
engine are not ready before they answer the same.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np

from mm_api.documents.engine_manifest import EngineManifest, GoldenPrompt
from mm_runtime.build.commands.in_process import InProcess, ensemble_steps
from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.build.durable import write_durably
from mm_runtime.build.golden import is_asked
from mm_runtime.engine.chain import Chain, Outputs
from mm_runtime.engine.directory import EngineDirectory
from mm_runtime.engine.listening import Prefixes, hears
from mm_runtime.engine.reference.load import load_engine
from mm_runtime.engine.tokens import TextCodec
from mm_runtime.engine.tones import sample_sound
from mm_runtime.pictures.sample import sample_picture

log = logging.getLogger(__name__)

TEXT = "What is in the image?"
SENTENCE = "translate English to German: the house is wonderful ."
"""Of engines that read text alone: what T5's paper asks. Others translate it or go on with it."""

MOST_TOKENS = 8

SURE = {"float32": 0.1}
UNSURE = 1.0
"""By how much a token's logit must lead the next one's to be kept. Chosen far above what rounding
does to logits of small models on other processors and in other batches; that was not measured."""


def keep_golden_prompt(context: StepContext) -> None:
    """Write `golden.json`, where the engine can be asked here and is sure of a token."""
    plan, places = context.plan, context.places
    places.golden.unlink(missing_ok=True)  # of a step that was killed
    if not is_asked(plan):
        return
    manifest = EngineManifest(
        fingerprint=plan.fingerprint,
        created=datetime.now(UTC),
        plan=plan,
        files=[],
        steps=[],
        versions={},
    )
    try:
        golden = _golden(EngineDirectory(places.unfinished, manifest))
    except Exception as error:  # noqa: BLE001 - a help to pods; a build does not fail for want of it
        log.info("no golden answer: %s", error)
        return
    if golden is None:
        log.info("no golden answer: the engine is not sure of its first token")
        return
    write_durably(places.golden, golden.to_json())
    log.info("golden answer: %d tokens, %r", len(golden.tokens), golden.answer)


def _golden(directory: EngineDirectory) -> GoldenPrompt | None:
    """Return the question and what the engine is sure to answer; None: it is sure of nothing."""
    loaded = load_engine(directory, max_queue_size=1, cancellation_check_seconds=1.0)
    calls = InProcess(directory, loaded)
    chain = Chain(
        steps=ensemble_steps(directory),
        outputs=frozenset({"_TOKENS_BATCH", "_SEQUENCE_LENGTH", "generation_logits"}),
        accumulate=False,
    )
    sees, listens = directory.vision is not None, hears(directory)
    text = TEXT if sees else SENTENCE
    if listens:
        text = Prefixes.load(directory, TextCodec(directory.tokenizer)).write(None)
    inputs: Outputs = {
        "text_input": np.array([[text.encode()]], dtype=np.object_),
        "max_tokens": np.array([[MOST_TOKENS]], dtype=np.int32),
        "top_k": np.array([[1]], dtype=np.int32),
        "stream": np.array([[True]]),
        "return_generation_logits": np.array([[True]]),
    }
    if sees:
        inputs["image_bytes_input"] = sample_picture()[np.newaxis, np.newaxis]
    if listens:
        inputs["WAV"] = sample_sound()[np.newaxis]
    loaded.engine.start()
    try:
        pieces = [piece for piece, _ in chain.answer(inputs, calls, lambda: False)]
    finally:
        loaded.engine.stop()
    lead = SURE.get(directory.manifest.plan.engine.dtype, UNSURE)
    tokens = list(_sure(pieces, lead))
    if not tokens:
        return None
    return GoldenPrompt(
        text=text,
        pictures=int(sees),
        sounds=1 if listens else None,
        tokens=tokens,
        answer=calls.decoded(tokens),
    )


def _sure(pieces: Sequence[Outputs], lead: float) -> Iterator[int]:
    """Yield tokens up to the first whose logit does not lead by so much."""
    for piece in pieces:
        count = int(piece["_SEQUENCE_LENGTH"].item())
        logits = piece["generation_logits"].reshape(-1, piece["generation_logits"].shape[-1])
        for token, row in zip(piece["_TOKENS_BATCH"].reshape(-1)[:count], logits, strict=False):
            first, second = np.partition(row, -2)[:-3:-1]
            if first - second < lead or int(row.argmax()) != token:
                return
            yield int(token)


if __name__ == "__main__":
    run_step(keep_golden_prompt)
