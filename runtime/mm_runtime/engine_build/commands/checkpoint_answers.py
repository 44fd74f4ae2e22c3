"""Greedy answers of a checkpoint with the likeliest tokens of each step, on the processor.

The language model is the Reference engine's, which is transformers' modules; in float32 where the
weights are small enough. The parts of the server run in this process, connected as its ensemble
connects them.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mm_api.backends import EVALUATOR
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.evaluation import (
    MOST_CANDIDATES,
    MOST_PROMPTS,
    MOST_TOKENS,
    Candidate,
    Evaluation,
    EvaluationPrompt,
    EvaluationStep,
)
from mm_api.evaluation import (
    ENOUGH_SECONDS,
    evaluation_dtype,
    evaluation_limits,
    runs_exported,
)
from mm_runtime.engine_build.commands.in_process import (
    COUNT,
    LOGITS,
    TOKENS,
    InProcess,
    greedy,
    in_process,
)
from mm_runtime.engine_build.commands.tower_encoder import tower_encoder
from mm_runtime.engine_build.seal import unsealed
from mm_runtime.images.sample import evaluation_images
from mm_runtime.serving.bls.pipeline import Outputs
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.audio.prefixes import Prefixes, accepts_audio
from mm_runtime.serving.preprocess.audio.tones import tone
from mm_runtime.serving.prompts.tokens import TextCodec

log = logging.getLogger(__name__)

ABOUT_IMAGES: Final = (
    (0, "What is in the image?"),
    (0, "What color is it?"),
    (1, "What color is the shape?"),
    (1, "Describe the image in detail."),
    (2, "What is in the image?"),
    (2, "Where is it?"),
)
"""Image and question; the family's chat template goes around the question."""

SENTENCES: Final = (
    "translate English to German: the house is wonderful .",
    "translate English to German: she reads a book in the garden .",
    "summarize: the train was late because of the snow , and the guests had to wait .",
    "The weather is",
    "One, two, three,",
    "A small dog runs across",
)
"""Prompts of models that read text alone: the first is from T5's paper. Others translate or
continue."""

HERTZ: Final = (220.0, 440.0, 880.0, 1760.0)


@dataclass(frozen=True)
class Question:
    """A prompt without an answer; the fields are those of `EvaluationPrompt`."""

    text: str
    image: int | None = None
    audio_hertz: float | None = None
    adapter: int | None = None


def answers_of(plan: BuildPlan, folder: Path) -> Evaluation:
    """Return the prompts of a family with the checkpoint's answers.

    The vision half is in `folder` where `runs_exported`; else it is the checkpoint's own, in torch.

    Raises:
        OSError, ValueError: a file is missing or not understood.
        RuntimeError: no prompt was answered.
    """
    directory = EngineDirectory(folder, as_checkpoint(plan, evaluation_dtype(plan.facts)))
    began = time.monotonic()
    prompts: list[EvaluationPrompt] = []
    encoder = None if runs_exported(plan.engine) else tower_encoder(directory)
    with in_process(directory, encoder) as models:
        for question in _questions(directory)[:MOST_PROMPTS]:
            if time.monotonic() - began > ENOUGH_SECONDS:
                log.info("evaluation: %d prompts after %.0f s", len(prompts), ENOUGH_SECONDS)
                break
            if (prompt := answered(question, models)) is not None:
                prompts.append(prompt)
    if not prompts:
        raise RuntimeError("no prompt of the family's is within the plan's limits")
    return Evaluation(
        fingerprint=plan.fingerprint, dtype=evaluation_dtype(plan.facts), prompts=prompts
    )


def answered(question: Question, models: InProcess) -> EvaluationPrompt | None:
    """Return a prompt with the checkpoint's answer; None: it is beyond the plan's limits."""
    try:
        pieces = models.answer(_inputs(question))
    except RequestError as error:
        log.info("evaluation: %r is left out: %s", question.text, error)
        return None
    steps = list(_steps(pieces, models))
    if not steps:
        return None
    return EvaluationPrompt(
        text=question.text,
        image=question.image,
        audio_hertz=question.audio_hertz,
        adapter=question.adapter,
        steps=steps,
    )


def as_checkpoint(plan: BuildPlan, dtype: str) -> EngineManifest:
    """Return what describes the engine of the checkpoint's own answers, whatever will serve it."""
    engine = plan.engine.model_copy(
        update={
            "backend": EVALUATOR,
            "dtype": dtype,
            "limits": evaluation_limits(plan.engine),
        }
    )
    changes = {"engine": engine, "trtllm": None, "lora": plan.adapters}
    return unsealed(plan.model_copy(update=changes))


def _questions(directory: EngineDirectory) -> list[Question]:
    """Return the base model's questions and one or two of each adapter."""
    if accepts_audio(directory):
        text = Prefixes.load(directory, TextCodec(directory.tokenizer)).write(None)
        base = [Question(text, audio_hertz=hertz) for hertz in HERTZ]
    elif directory.vision is not None:
        base = [Question(text, image=image) for image, text in ABOUT_IMAGES]
    else:
        base = [Question(text) for text in SENTENCES]
    uids = [one.uid for one in directory.manifest.plan.adapters][: MOST_PROMPTS - 2]
    each = 2 if len(uids) <= (MOST_PROMPTS - 4) // 2 else 1
    adapted = [
        Question(one.text, one.image, one.audio_hertz, uid) for uid in uids for one in base[:each]
    ]
    return [*base[: MOST_PROMPTS - len(adapted)], *adapted]


def _inputs(question: Question) -> Outputs:
    inputs = greedy(question.text, MOST_TOKENS)
    if question.image is not None:
        inputs["image_bytes_input"] = evaluation_images()[question.image][np.newaxis, np.newaxis]
    if question.audio_hertz is not None:
        inputs["WAV"] = tone(question.audio_hertz)[np.newaxis]
    if question.adapter is not None:
        inputs["lora_task_id"] = np.array([[question.adapter]], dtype=np.uint64)
    return inputs


def _steps(pieces: Sequence[Outputs], models: InProcess) -> Iterator[EvaluationStep]:
    """Yield each token with the likeliest ones in its place; an end token ends the answer."""
    tokens: list[int] = []
    for piece in pieces:
        count = int(piece[COUNT].item())
        given = piece[TOKENS].reshape(-1)[:count].tolist()
        rows = piece[LOGITS].reshape(-1, piece[LOGITS].shape[-1])
        if rows.shape[-1] <= MOST_CANDIDATES:  # no logits came with the piece
            continue
        for at, row in enumerate(rows):
            likeliest = int(row.argmax())
            if at < count and given[at] != likeliest:
                return  # a forced token: no greedy choice to compare with
            if at >= count and likeliest not in models.end_ids:
                return
            yield _step(tokens, row, models)
            tokens.append(likeliest)


def _step(tokens: Sequence[int], row: NDArray[Any], models: InProcess) -> EvaluationStep:
    likeliest = np.argsort(row, kind="stable")[::-1][:MOST_CANDIDATES].tolist()
    finite = row[np.isfinite(row)]
    return EvaluationStep(
        candidates=[
            Candidate(
                token=one,
                text=models.decoded(tokens if one in models.end_ids else [*tokens, one]),
                logit=float(row[one]),
                ends=one in models.end_ids,
            )
            for one in likeliest
            if np.isfinite(row[one])
        ],
        spread=float(finite.std()),
        log_sum=float(np.logaddexp.reduce(finite.astype(np.float64))),
    )
