"""The ensemble's steps run one after another by `tensorrt_llm_bls`, in terms of plain tensors.

Which tensor goes where is the ensemble's own table, so the two models cannot disagree.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.tensors import Tensors

Outputs = dict[str, NDArray[Any]]

LANGUAGE_MODEL = "tensorrt_llm"
UNUSABLE = {
    "prompt_embedding_table": "text cannot name its rows; send input_ids to tensorrt_llm itself",
    "prompt_vocab_size": "it belongs to prompt_embedding_table",
    "num_draft_tokens": "there is no draft model",
    "use_draft_logits": "there is no draft model",
}
"""Inputs of upstream's model that would change nothing here, and why they are refused."""

ONE_BEAM = (1, 1)
"""Batch and beams of the answers whose tokens are accumulated."""


class Step(Protocol):
    """One model: its tensor name -> the chain's tensor name."""

    @property
    def model_name(self) -> str:
        """Name of the model in the repository."""

    @property
    def input_map(self) -> Mapping[str, str]:
        """Where its inputs come from."""

    @property
    def output_map(self) -> Mapping[str, str]:
        """Where its outputs go."""


Call = Callable[[str, Tensors, Sequence[str]], Iterator[Outputs]]
"""Model, inputs, names of outputs -> responses; raises the model's error."""


@dataclass(frozen=True)
class Chain:
    """Runs one request through all steps."""

    steps: Sequence[Step]
    outputs: frozenset[str]
    """What a response may hold."""

    accumulate: bool
    """Each response of a stream repeats the whole text."""

    def answer(self, inputs: Tensors, call: Call) -> Iterator[tuple[Outputs, bool]]:
        """Yield the responses of one request, each with whether it is the last.

        Raises:
            RequestError: an input that this model cannot honour.
        """
        for name, reason in UNUSABLE.items():
            if name in inputs:
                raise RequestError(f"{name} is not supported: {reason}")
        names = [step.model_name for step in self.steps]
        place = names.index(LANGUAGE_MODEL)
        # Triton has reshaped some of the client's [1, 1] to [1]; every model wants them whole.
        tensors = {name: one if one.ndim > 1 else one[np.newaxis] for name, one in inputs.items()}
        for step in self.steps[:place]:
            for response in _run(step, tensors, call):
                tensors |= response
        for piece in _run(self.steps[place], tensors, call):
            answer = _whole(piece) if self.accumulate else piece
            for step in self.steps[place + 1 :]:
                for response in _run(step, answer, call):
                    answer |= response
            given = {name: tensor for name, tensor in answer.items() if name in self.outputs}
            yield given, bool(piece["_IS_LAST"].all())


def _run(step: Step, tensors: Tensors, call: Call) -> Iterator[Outputs]:
    """Yield a step's responses under the chain's names; tensors nobody made are left out."""
    inputs = {name: tensors[one] for name, one in step.input_map.items() if one in tensors}
    for response in call(step.model_name, inputs, tuple(step.output_map)):
        yield {one: response[name] for name, one in step.output_map.items() if name in response}


def _whole(piece: Outputs) -> Outputs:
    """Return a piece whose new tokens are all tokens so far, so that its text is the whole text."""
    new, previous = piece["_TOKENS_BATCH"], piece["_PREVIOUS_IDS"]
    if new.shape[:2] != ONE_BEAM:
        raise RequestError(
            f"accumulateTokens: got {new.shape[1]} beams; tokens are accumulated for one beam only"
        )
    earlier = previous[previous >= 0]
    tokens = np.concatenate([earlier, new[0, 0, : piece["_SEQUENCE_LENGTH"].item()]])
    return {
        **{name: tensor for name, tensor in piece.items() if name != "_PREVIOUS_IDS"},
        "_TOKENS_BATCH": (tokens if len(tokens) else new[0, 0])[np.newaxis, np.newaxis],
        "_SEQUENCE_LENGTH": np.array([[len(tokens)]], dtype=np.int32),
    }
