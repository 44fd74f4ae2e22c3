"""The evaluation of a pod: its server's answers against those of the checkpoint.

A server that answers is not a server that answers like its checkpoint: a converted weight, a
tokenizer or a projector may be wrong in every token and fail no request.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.evaluation import (
    EVALUATION_NAME,
    MOST_BYTES,
    Evaluation,
    EvaluationPrompt,
    EvaluationReport,
)
from mm_api.quantized import quantization_of
from mm_runtime.gateway.warmup.agreement import Agreement, Served, compare
from mm_runtime.gateway.warmup.bounds import near_tie_bound


class EvaluationFailedError(Exception):
    """The engine answers otherwise than its checkpoint: another try gives the same answers."""


class Comparison:
    """The prompts of one engine, and what came out of the last comparison."""

    def __init__(
        self, evaluation: Evaluation, *, engine_dtype: str, quantization: str | None = None
    ) -> None:
        self._evaluation = evaluation
        self._bound = near_tie_bound(engine_dtype, evaluation.dtype, quantization)
        self.report: EvaluationReport | None = None

    @property
    def prompts(self) -> Iterator[EvaluationPrompt]:
        yield from self._evaluation.prompts

    def judge(self, answers: Sequence[Served]) -> EvaluationReport:
        """Keep and return what came out.

        Raises:
            EvaluationFailedError: a difference that is no near-tie.
        """
        found = [
            compare(prompt, answer, bound=self._bound)
            for prompt, answer in zip(self._evaluation.prompts, answers, strict=True)
        ]
        self.report = report_of(self._evaluation.fingerprint, found)
        if problem := self.report.problem:
            raise EvaluationFailedError(f"EvaluationFailed: {problem}")
        return self.report


def read_comparison(folder: Path, manifest: EngineManifest) -> Comparison | None:
    """Return the comparison of an engine; None: its build kept no answers.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is too large, of another engine or not understood.
    """
    listed = next((one for one in manifest.files if one.path == EVALUATION_NAME), None)
    if listed is None:
        return None
    path = folder / EVALUATION_NAME
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES} bytes: build the engine again")
    evaluation = Evaluation.from_json(content)
    if evaluation.fingerprint != manifest.fingerprint:
        raise ValueError(f"{path} is of another engine: build the engine again")
    plan = manifest.plan
    return Comparison(
        evaluation, engine_dtype=plan.engine.dtype, quantization=quantization_of(plan)
    )


def report_of(fingerprint: str, found: Sequence[Agreement]) -> EvaluationReport:
    """Return the figures of all answers of one engine."""
    differences = [one.difference for one in found if one.difference is not None]
    apart = [distance for one in found for distance in one.log_prob_distances]
    return EvaluationReport(
        fingerprint=fingerprint,
        prompts=len(found),
        tokens=sum(one.tokens for one in found),
        agreed=sum(one.agreed for one in found),
        near_ties=sum(one.near_tie for one in found),
        failed_prompts=len(differences),
        log_prob_distance=round(max(apart), 3) if apart else None,
        first_difference=differences[0] if differences else None,
    )
