"""What would fit: the smallest change of each kind, the cheapest first.

Fewer requests at a time cost throughput, shorter sequences and fewer images cost abilities,
quantization may cost accuracy, and more GPUs cost money: they are tried in this order. When no
single change is enough, quantization or more GPUs are combined with the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mm_api.documents.model_plan import Change, Suggestion
from mm_operator.errors import SpecError
from mm_operator.plan.engine.checks import problems
from mm_operator.plan.engine.dtypes import FP8_SINCE, capability
from mm_operator.plan.engine.fit import fullest
from mm_operator.plan.engine.request import Ask
from mm_operator.plan.engine.serve_checks import staged_quantizations
from mm_operator.plan.engine.situation import Situation
from mm_operator.plan.engine.sizes import EngineSizing, Subject, size

MOST = 5
"""Suggestions shown: one of each kind is enough to choose from."""

_RANKS = (2, 4, 8)
_SHORTEST = 64
"""No answer is useful in sequences shorter than this beyond the prompt."""


@dataclass(frozen=True, slots=True)
class _Trial:
    ask: Ask
    changes: tuple[Change, ...]


def suggest(ask: Ask, situation: Situation, subject: Subject) -> tuple[Suggestion, ...]:
    """Return the smallest changes that fit, the cheapest first; none when nothing does."""
    found = [
        suggestion
        for kind in (_batches, _lengths, _images, _quantizations, _ranks)
        if (suggestion := _first(kind(_Trial(ask, ()), situation, subject), situation, subject))
    ]
    if not found:
        found = list(_pairs(ask, situation, subject))
    return tuple(found[:MOST])


def _pairs(ask: Ask, situation: Situation, subject: Subject) -> Iterator[Suggestion]:
    start = _Trial(ask, ())
    for first in (_quantizations, _ranks):
        for trial in first(start, situation, subject):
            for second in (_batches, _lengths, *(() if first is _ranks else (_ranks,))):
                moved = second(trial, situation, subject)
                if suggestion := _first(moved, situation, subject):
                    yield suggestion


def _first(trials: Iterator[_Trial], situation: Situation, subject: Subject) -> Suggestion | None:
    """Return the first trial that fits: trials come in the order of growing change."""
    for trial in trials:
        sized = _sized(trial.ask, situation, subject)
        if sized is None:
            continue
        gpu = fullest(sized.memory)
        if gpu.total_bytes <= gpu.gpu_memory_bytes:
            return Suggestion(
                changes=list(trial.changes),
                gpus=trial.ask.tensor_parallel * trial.ask.pipeline_parallel,
                total_bytes=gpu.total_bytes,
                free_bytes=gpu.gpu_memory_bytes - gpu.total_bytes,
            )
    return None


def _sized(ask: Ask, situation: Situation, subject: Subject) -> EngineSizing | None:
    if problems(replace(situation, ask=ask, gpu_count=0)):
        return None
    try:
        return size(ask, subject)
    except SpecError:
        return None


def _change(trial: _Trial, ask: Ask, path: str, current: object, suggested: object) -> _Trial:
    change = Change(
        path=f"spec.engine.{path}",
        current="none" if current is None else str(current),
        suggested=str(suggested),
    )
    return _Trial(ask, (*trial.changes, change))


def _batches(trial: _Trial, _: Situation, __: Subject) -> Iterator[_Trial]:
    batch = trial.ask.max_batch_size
    steps = range(batch - 1, 0, -1) if batch <= MOST * MOST else _halves(batch)
    for smaller in steps:
        ask = replace(trial.ask, max_batch_size=smaller)
        yield _change(trial, ask, "maxBatchSize", batch, smaller)


def _halves(number: int) -> Iterator[int]:
    while number > 1:
        number //= 2
        yield number


def _lengths(trial: _Trial, _: Situation, subject: Subject) -> Iterator[_Trial]:
    try:
        now = size(trial.ask, subject).sized.limits.max_seq_len
    except SpecError:
        return
    shorter = now * 7 // 8 // _SHORTEST * _SHORTEST
    while shorter >= _SHORTEST:
        ask = replace(trial.ask, max_seq_len=shorter, max_input_len=None)
        yield _change(trial, ask, "maxSeqLen", now, shorter)
        shorter = shorter * 7 // 8 // _SHORTEST * _SHORTEST


def _images(trial: _Trial, _: Situation, __: Subject) -> Iterator[_Trial]:
    images = trial.ask.max_images
    for fewer in range(images - 1, 0, -1):
        ask = replace(trial.ask, max_images=fewer)
        yield _change(trial, ask, "maxImagesPerRequest", images, fewer)


def _quantizations(trial: _Trial, situation: Situation, subject: Subject) -> Iterator[_Trial]:
    if trial.ask.quantization is not None:
        return
    fp8 = capability(subject.gpu) >= FP8_SINCE
    staged = situation.backend == "PyTorch"
    for name in situation.family.quantizations:
        if name == "FP8" and not fp8:
            continue
        if staged and name not in staged_quantizations(situation.family):
            continue
        ask = replace(trial.ask, quantization=name)
        yield _change(trial, ask, "quantization", None, name)


def _ranks(trial: _Trial, _: Situation, __: Subject) -> Iterator[_Trial]:
    for ranks in _RANKS:
        if ranks > trial.ask.tensor_parallel:
            ask = replace(trial.ask, tensor_parallel=ranks)
            yield _change(trial, ask, "parallelism.tensor", trial.ask.tensor_parallel, ranks)
