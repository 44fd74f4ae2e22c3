"""Scores of a prompt's tokens are those of its logits, in whatever parts it is read.

`test_families_equal_transformers.py` has the families, `tests/openai` the way to a client.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.prompt_scores import SCORED_AT_ONCE, SCORED_ROWS, scored
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import PromptScores, Request, Wanted
from mm_runtime.serving.prompts.scored import MOST_SCORES
from support.collecting_sink import CollectingSink
from support.engines import MAX_LENGTH, SLOTS, engine_starter
from support.plain_kernels import PlainKernels
from support.tiny_llava import CHECKPOINT, VOCABULARY

PROMPT = tuple(5 + (7 * at + at * at) % 80 for at in range(3 * SCORED_ROWS))
LIKELIEST = 3
WANTED = Wanted(prompt_likeliest=LIKELIEST)
ALONE = Request(ids=PROMPT, max_tokens=2, end_ids=frozenset(), wanted=WANTED)
WITHIN = 1e-4


@pytest.fixture(
    scope="module",
    params=[
        pytest.param({}, id="modules"),
        pytest.param({"graphs": True}, id="fixed-shapes"),
        pytest.param({"kernels": PlainKernels()}, id="fused"),
        pytest.param({"kernels": PlainKernels(), "reuse_bytes": 8 << 20}, id="keeping"),
    ],
)
def model(request: pytest.FixtureRequest) -> LanguageModel:
    """The tiny model in each way that decoders are computed."""
    given = {
        "folder": CHECKPOINT,
        "family": "llava",
        "dtype": "float32",
        "slots": SLOTS,
        "max_length": MAX_LENGTH,
    }
    return LanguageModel(Checkpoint(**{**given, **request.param}))  # type: ignore[arg-type]


def answered(
    model: LanguageModel, requests: list[Request], prompt_rows: int
) -> list[CollectingSink]:
    """Return what comes of requests that are in flight together."""
    sinks = [CollectingSink() for _ in requests]
    with engine_starter(model)(prompt_rows=prompt_rows) as engine:
        for request, sink in zip(requests, sinks, strict=True):
            engine.submit(request, sink)
        for sink in sinks:
            sink.wait()
    return sinks


def scores_of(sink: CollectingSink) -> PromptScores:
    """Return those of an answer, which its first piece has, and no other."""
    first, *others = [piece.prompt_scores for piece in sink.pieces]
    assert others
    assert not any(others)
    assert first is not None
    return first


def check(found: PromptScores, logits: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    """Compare scores with the logits of a prompt."""
    expected = torch.from_numpy(logits).log_softmax(dim=-1)[:-1]
    own = expected.gather(1, torch.tensor(found.ids[1:])[:, None])[:, 0]
    assert found.log_probs[0] == 0
    assert found.log_probs[1:] == pytest.approx(own.numpy(), abs=WITHIN)
    ranks = 1 + (expected > own[:, None]).sum(dim=1)
    assert found.ranks.tolist() == [0, *ranks.tolist()]
    values, _ = expected.topk(LIKELIEST)
    assert found.likeliest_log_probs[1:] == pytest.approx(values.numpy(), abs=WITHIN)
    assert (found.likeliest[0] == -1).all()
    of_ids = expected.gather(1, torch.from_numpy(found.likeliest[1:].astype(np.int64)))
    assert of_ids.numpy() == pytest.approx(values.numpy(), abs=WITHIN)


@pytest.mark.parametrize("prompt_rows", [1024, 1, 7, SCORED_ROWS + 1])
def test_scores_are_those_of_the_logits(model: LanguageModel, prompt_rows: int) -> None:
    """Twice beside two other answers, which stay as they are alone."""
    other = Request(ids=PROMPT[:9], max_tokens=60, end_ids=frozenset())
    (alone,) = answered(model, [other], prompt_rows)
    logits = replace(ALONE, wanted=replace(WANTED, context_logits=True))
    found = answered(model, [other, other, ALONE, logits], prompt_rows)
    assert [one.ids for one in found[:2]] == [alone.ids] * 2
    context = found[3].pieces[-1].context_logits
    assert context is not None
    assert context.shape == (len(PROMPT), VOCABULARY)
    for sink in found[2:]:
        assert scores_of(sink).ids == PROMPT
        check(scores_of(sink), context)
        assert sink.pieces[-1].reused == 0


@pytest.mark.parametrize("count", [1, 2, SCORED_ROWS, SCORED_ROWS + 1, SCORED_ROWS + 2])
def test_prompts_of_any_length(model: LanguageModel, count: int) -> None:
    """The last token's state says nothing of the prompt, and nothing is before the first."""
    request = replace(ALONE, ids=PROMPT[:count])
    logits = replace(request, wanted=replace(WANTED, context_logits=True))
    (sink,) = answered(model, [logits], 1024)
    context = sink.pieces[-1].context_logits
    assert context is not None
    check(scores_of(sink), context)


def test_large_vocabularies_are_compared_in_parts() -> None:
    """A row's scores do not depend on how many are compared at one time."""
    torch.manual_seed(3)
    logits = torch.randn(SCORED_ROWS, 1 + SCORED_AT_ONCE // 5)
    tokens = [(row * 7919) % logits.shape[1] for row in range(SCORED_ROWS)]
    found = scored(logits, tokens, 2)
    expected = torch.cat(
        [scored(logits[row : row + 1], tokens[row : row + 1], 2) for row in range(SCORED_ROWS)]
    )
    assert torch.equal(found, expected)
    log_probs = logits.log_softmax(dim=-1)
    assert torch.equal(found[:, 0].float(), log_probs[torch.arange(SCORED_ROWS), tokens])
    assert torch.equal(found[:, 4].long(), logits.argmax(dim=-1))


def test_no_scores_unless_wanted(model: LanguageModel) -> None:
    """Not even empty ones."""
    (sink,) = answered(model, [replace(ALONE, wanted=Wanted(log_probs=True))], 7)
    assert [piece.prompt_scores for piece in sink.pieces] == [None, None]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        pytest.param(
            replace(ALONE, ids=(5,) * 400, wanted=Wanted(prompt_likeliest=163)),
            f"65600 scores of the prompt are wanted, 164 of each of 400 tokens; .* {MOST_SCORES}",
            id="too-many",
        ),
        pytest.param(
            replace(ALONE, ids=(5, VOCABULARY), table=np.zeros((1, 128), np.float32)),
            "features of images are no tokens",
            id="image",
        ),
    ],
)
def test_refusals(model: LanguageModel, request_: Request, says: str) -> None:
    """Before anything is computed."""
    with (
        engine_starter(model)() as engine,
        pytest.raises(RequestError, match=says),
    ):
        engine.submit(request_, CollectingSink())
