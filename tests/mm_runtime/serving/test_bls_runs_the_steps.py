"""What `tensorrt_llm_bls` queries the other models, and what it makes of their answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
import pytest

from mm_runtime.repository.configs import tensorrt_llm_bls as declared
from mm_runtime.repository.values import values_of
from mm_runtime.serving.bls.pipeline import BlsPipeline, Outputs, read_steps
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.tensors import Tensors
from support.build_plans import serving_plan
from support.cases import cases
from support.documents import manifest

ANSWER = (7, 8, 9)


@dataclass
class ScriptedModels:
    """Answers with `ANSWER`, one token a piece when requested pieces; text is the ids joined."""

    own: bool = True
    """Says which tokens came before and which are the last, as our own engine does."""

    streamed: list[bool] = field(default_factory=list)
    stopped: bool = False
    before: list[list[int]] = field(default_factory=list)
    """Earlier tokens, for each time that text was requested."""

    def once(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Outputs:
        del outputs
        if model == "preprocessing":
            return {"INPUT_ID": np.array([[1, 2]]), "REQUEST_INPUT_LEN": np.array([[2]])}
        assert model == "postprocessing"
        count = inputs["SEQUENCE_LENGTH"].item()
        words = [str(token) for token in inputs["TOKENS_BATCH"][0, 0, :count]]
        self.before.append([one for one in inputs["PREVIOUS_TOKENS"].ravel().tolist() if one > 0])
        return {"OUTPUT": np.array([[" ".join(words).encode()]], dtype=np.object_)}

    def pieces(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Iterator[Outputs]:
        del outputs
        assert model == "tensorrt_llm"
        streaming = bool(inputs["streaming"].item()) if "streaming" in inputs else False
        self.streamed.append(streaming)
        parts = [(token,) for token in ANSWER] if streaming else [ANSWER]
        for number, part in enumerate(parts):
            own = {
                "previous_ids": np.array([[ANSWER[:number] or (-1,)]]),
                "is_last": np.array([[number == len(parts) - 1]]),
            }
            yield {
                **(own if self.own else {}),
                "output_ids": np.array([[part]]),
                "sequence_length": np.array([[len(part)]]),
                "output_log_probs": np.array([[[-float(token) for token in part]]]),
                "cum_log_probs": np.array([[-float(sum(ANSWER[: number + 1]))]]),
            }

    def stop(self) -> None:
        self.stopped = True


def chain(*, accumulate: bool = False) -> BlsPipeline:
    engine = manifest()
    spec = engine.plan.engine.model_copy(update={"vision": None})
    engine = engine.model_copy(update={"plan": engine.plan.model_copy(update={"engine": spec})})
    somewhere = PurePath("/engine")
    values = values_of(
        engine, serving_plan(engine.fingerprint), somewhere, somewhere, adapters=somewhere
    )
    written = declared.config(values)
    return BlsPipeline(
        steps=read_steps(written.parameters["steps"].string_value),
        outputs=frozenset(tensor.name for tensor in written.output),
        accumulate=accumulate,
    )


def request(**values: object) -> Tensors:
    given = {name: np.array([[value]]) for name, value in values.items()}
    return {"text_input": np.array([[b"?"]]), "max_tokens": np.array([[3]]), **given}


def texts(answers: Sequence[tuple[Outputs, bool]]) -> list[str]:
    return [outputs["text_output"].item().decode() for outputs, _ in answers]


@cases(
    "expected accumulate values",
    {
        "at-once": (["7 8 9"], False, {}),
        "pieces": (["7", "8", "9"], False, {"stream": True}),
        "accumulated": (["7", "7 8", "7 8 9"], True, {"stream": True}),
        "at-once-when-accumulated": (["7 8 9"], True, {}),
    },
)
def test_text(expected: list[str], accumulate: bool, values: dict[str, object]) -> None:  # noqa: FBT001
    answers = list(
        chain(accumulate=accumulate).answer(request(**values), ScriptedModels(), lambda: False)
    )
    assert expected == texts(answers)
    assert [False] * (len(expected) - 1) + [True] == [last for _, last in answers]


@cases(
    "expected values",
    {"at-once": (["7 8 9"], {}), "pieces": (["7", "8", "9", ""], {"stream": True})},
)
def test_engines_that_do_not_say_which_piece_is_the_last(
    expected: list[str], values: dict[str, object]
) -> None:
    """Earlier tokens are noted for the text's sake; an empty response ends a stream."""
    models = ScriptedModels(own=False)
    answers = list(chain().answer(request(**values), models, lambda: False))
    assert expected == texts(answers)
    assert [False] * (len(expected) - 1) + [True] == [last for _, last in answers]
    assert [list(ANSWER[:number]) for number in range(len(expected))] == models.before


def test_answers_at_once_hold_every_tokens_log_probability() -> None:
    """What comes piece by piece is joined for a client that does not stream."""
    [(outputs, _)] = chain().answer(request(), ScriptedModels(), lambda: False)
    assert outputs["output_log_probs"].tolist() == [[[-7.0, -8.0, -9.0]]]
    assert outputs["cum_log_probs"].tolist() == [[-24.0]]


@cases(
    "expected values",
    {
        "plain": (True, {}),
        "streaming": (True, {"stream": True}),
        "several-beams": (False, {"beam_width": 2}),
        "with-its-prompt": (False, {"exclude_input_in_output": False}),
    },
)
def test_answers_are_requested_in_pieces(expected: bool, values: dict[str, object]) -> None:  # noqa: FBT001
    """Pieces can be stopped; only what no engine gives in pieces is requested complete."""
    models = ScriptedModels()
    list(chain().answer(request(**values), models, lambda: False))
    assert [expected] == models.streamed


@pytest.mark.parametrize("values", [{}, {"stream": True}], ids=["at-once", "streaming"])
def test_a_client_that_goes_stops_the_answer(values: dict[str, object]) -> None:
    """Whether it streams or not: the language model is stopped, and no one is answered."""
    models = ScriptedModels()
    requested = iter([False, True])  # there for preprocessing, gone at the first piece
    answers = list(chain().answer(request(**values), models, lambda: next(requested)))
    assert (answers, models.stopped) == ([], True)


def test_a_client_that_has_gone_costs_nothing() -> None:
    models = ScriptedModels()
    assert list(chain().answer(request(), models, lambda: True)) == []
    assert (models.streamed, models.stopped) == ([], False)


def test_inputs_that_would_do_nothing_are_refused() -> None:
    """A draft model is requested by name and there is none."""
    with pytest.raises(RequestError, match="num_draft_tokens is not supported: there is no draft"):
        list(chain().answer(request(num_draft_tokens=2), ScriptedModels(), lambda: False))
