"""Twenty requests to a served model, and what transformers answers to them in float32."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from mm_api.documents.engine_manifest import CHECKPOINT_FOLDER, TOKENIZER_FOLDER, EngineManifest
from mm_api.documents.evaluation import (
    MOST_COMPARED,
    EvaluationPrompt,
    EvaluationReport,
    ReferenceFigures,
)
from mm_api.documents.serving_plan import ServingPlan
from mm_api.evaluation import evaluation_cost
from mm_api.quantized import quantization_of
from mm_runtime.comparison.requests import Request, about_images, about_texts, of_texts
from mm_runtime.comparison.service import Service
from mm_runtime.engine_build.commands.checkpoint_answers import answered, as_checkpoint
from mm_runtime.engine_build.commands.checkpoint_folder import link_parts
from mm_runtime.engine_build.commands.in_process import InProcess, in_process
from mm_runtime.engine_build.commands.tower_encoder import tower_encoder
from mm_runtime.engine_build.unknown_prompt import unknown_prompt
from mm_runtime.errors import PermanentError
from mm_runtime.gateway.prompts.loading import load_chat_prompt
from mm_runtime.gateway.warmup.agreement import Agreement, Served, compare
from mm_runtime.gateway.warmup.bounds import near_tie_bound
from mm_runtime.gateway.warmup.evaluation import report_of
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.preprocess.audio.prefixes import accepts_audio
from mm_runtime.serving.prompts.tokens import TextCodec

log = logging.getLogger(__name__)

REFERENCE_DTYPE = "float32"


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What is compared; `url` of the model, up to and with `/v1`."""

    manifest: EngineManifest
    directory: Path
    serving: ServingPlan
    url: str
    token: str = ""


def compared(options: CompareOptions) -> EvaluationReport:
    """Return how a served model compares with its checkpoint.

    Raises:
        PermanentError: there is no checkpoint to run, or the server refuses the requests.
        RuntimeCommandError: no answer, or another revision's.
    """
    with TemporaryDirectory() as folder:
        return _compared(options, _as_reference(options, Path(folder) / "reference"))


def _compared(options: CompareOptions, directory: EngineDirectory) -> EvaluationReport:
    plan = options.manifest.plan
    service = Service(options.url, options.manifest.fingerprint, options.token)
    requests = list(islice(_requests(directory, options.serving.model), MOST_COMPARED))
    encoder = None if plan.engine.traits.runs_checkpoints else tower_encoder(directory)
    with in_process(directory, encoder) as models:
        pairs = list(_answers(requests, models, service))
    if not pairs:
        raise PermanentError("no prompt of the family's is within the plan's limits")
    bound = near_tie_bound(plan.engine.dtype, REFERENCE_DTYPE, quantization_of(plan))
    found = [compare(prompt, served, bound=bound) for prompt, served in pairs]
    report = report_of(options.manifest.fingerprint, found)
    return report.model_copy(update={"reference": _figures(found, bound)})


def _as_reference(options: CompareOptions, folder: Path) -> EngineDirectory:
    """Return the checkpoint as the Reference engine reads it, by links in `folder` where needed."""
    plan, traits = options.manifest.plan, options.manifest.plan.engine.traits
    if traits.builds_engines:
        raise PermanentError(
            f"an engine of backend {traits.name} holds no checkpoint that transformers could run: "
            "its pods compare it with the answers that its build kept (spec.build.evaluation Auto)"
        )
    if options.serving.fingerprint != options.manifest.fingerprint:
        raise PermanentError("the serving plan is of another engine: wait for the rollout")
    described = as_checkpoint(plan, REFERENCE_DTYPE)
    if traits.stages:
        _link_checkpoint(options, folder)
        # Requests name no adapter, and the folder holds none.
        base = described.plan.model_copy(update={"lora": None})
        described = described.model_copy(update={"plan": base})
    directory = EngineDirectory(folder if traits.stages else options.directory, described)
    if accepts_audio(directory):
        raise PermanentError(
            "transcriptions have no log probabilities and are not compared by requests: the build "
            "keeps answers to audio (spec.build.evaluation Auto), and pods compare them"
        )
    return directory


def _link_checkpoint(options: CompareOptions, folder: Path) -> None:
    plan, checkpoint = options.manifest.plan, options.directory / CHECKPOINT_FOLDER
    if evaluation_cost(plan.engine.model_copy(update={"evaluation": None}), plan.facts) is None:
        raise PermanentError(
            f"family {plan.engine.family} of backend {plan.engine.backend} is not run by "
            "transformers here: there is nothing to compare with"
        )
    if why := unknown_prompt(checkpoint):
        raise PermanentError(f"trtllm-serve writes prompts itself, and {why}")
    link_parts(folder, checkpoint, options.directory / TOKENIZER_FOLDER)


def _requests(directory: EngineDirectory, model: str) -> Iterator[Request]:
    if directory.facts.encoder is not None:
        return of_texts(model)
    chat = load_chat_prompt(directory, TextCodec(directory.tokenizer))
    return (about_texts if directory.vision is None else about_images)(chat, model)


def _answers(
    requests: Sequence[Request], models: InProcess, service: Service
) -> Iterator[tuple[EvaluationPrompt, Served]]:
    for number, request in enumerate(requests, 1):
        prompt = answered(request.question, models)
        if prompt is None:
            continue
        body = {**request.body, "max_tokens": len(prompt.steps)}
        yield prompt, service.answer(request.path, body)
        log.info("compared %d of %d", number, len(requests))


def _figures(found: Sequence[Agreement], bound: float) -> ReferenceFigures:
    apart = [distance for one in found for distance in one.log_prob_distances]
    parted = [one.parts_at for one in found if one.parts_at is not None]
    return ReferenceFigures(
        dtype=REFERENCE_DTYPE,
        bound=bound,
        mean_log_prob_distance=round(fmean(apart), 5) if apart else None,
        first_differing_token=min(parted, default=None),
    )
