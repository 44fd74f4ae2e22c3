"""The ensemble's steps run one after another by `tensorrt_llm_bls`, in terms of plain tensors.

Which tensor goes where is the ensemble's own table, so the two models cannot disagree.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.tensor_names import HOST_FEATURES
from mm_runtime.serving.tensors import Tensors, scalar

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
"""Batch and beams of the answers whose tokens are joined."""

FINISH_REASON = "finish_reason"
NO_TOKEN = -1
"""What a tensor of tokens holds when there are none."""

JOINED = {"output_log_probs": 2, "generation_logits": 2}
"""Outputs with a value a token -> the axis of the tokens."""


class Step(NamedTuple):
    """One model: its tensor name -> the chain's tensor name."""

    model_name: str
    input_map: Mapping[str, str]
    output_map: Mapping[str, str]


def read_steps(text: str) -> tuple[Step, ...]:
    return tuple(Step(*one) for one in json.loads(text))


class Calls(Protocol):
    """How the other models are called; each method raises the model's error."""

    def once(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Outputs:
        """Return the one response of a model."""

    def pieces(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Iterator[Outputs]:
        """Yield each response of a model."""

    def stop(self) -> None:
        """Make the pieces end soon."""


@dataclass(frozen=True)
class BlsPipeline:
    """Runs one request through all steps."""

    steps: Sequence[Step]
    outputs: frozenset[str]
    """What a response may hold."""

    accumulate: bool
    """Each response of a stream repeats the full text."""

    def answer(
        self, inputs: Tensors, calls: Calls, cancelled: Callable[[], bool]
    ) -> Iterator[tuple[Outputs, bool]]:
        """Yield the responses of one request, each with whether it is the last.

        Nothing more is yielded once the request is cancelled, and the language model is stopped.

        Raises:
            RequestError: an input that this model cannot honour.
        """
        for name, reason in UNUSABLE.items():
            if name in inputs:
                raise RequestError(f"{name} is not supported: {reason}")
        names = [step.model_name for step in self.steps]
        place = names.index(LANGUAGE_MODEL)
        # Triton has reshaped some of the client's [1, 1] to [1]; every model takes [1, 1].
        tensors = {name: one if one.ndim > 1 else one[np.newaxis] for name, one in inputs.items()}
        tensors[HOST_FEATURES] = np.array([[True]])  # read where the step has such an input
        for step in self.steps[:place]:
            if cancelled():
                return
            tensors |= _renamed(step, calls.once(*_call(step, tensors)))
        for piece in self._responses(self.steps[place], tensors, calls, cancelled):
            answer = piece
            for step in self.steps[place + 1 :]:
                answer |= _renamed(step, calls.once(*_call(step, answer)))
            if scalar(tensors, "return_finish_reason"):
                answer[FINISH_REASON] = _finish_reason(tensors, answer)
            given = {name: tensor for name, tensor in answer.items() if name in self.outputs}
            yield given, _is_last(piece)

    def _responses(
        self, step: Step, tensors: Outputs, calls: Calls, cancelled: Callable[[], bool]
    ) -> Iterator[Outputs]:
        """Yield the language model's tensors for each response the client gets."""
        streaming = bool(scalar(tensors, "stream"))
        # An answer that comes token by token can be stopped once its client has cancelled, so the
        # language model always streams, also when the client does not. Several beams, and the
        # prompt in front of the answer, come in one piece only.
        complete = (scalar(tensors, "beam_width") or 1) > 1 or (
            scalar(tensors, "exclude_input_in_output") is False
        )
        if not (streaming or complete):
            tensors = {**tensors, "stream": np.array([[True]])}
        kept: list[Outputs] = []
        for piece in self._pieces(step, tensors, calls, cancelled, complete=complete):
            if complete or (streaming and not self.accumulate):
                yield piece
                continue
            kept.append(piece)
            if streaming or _is_last(piece):
                yield _joined(kept, values=not streaming)

    def _pieces(
        self,
        step: Step,
        tensors: Outputs,
        calls: Calls,
        cancelled: Callable[[], bool],
        *,
        complete: bool,
    ) -> Iterator[Outputs]:
        """Yield what the language model sends; stop it, and end, once the request is cancelled.

        Only our own engine says which piece is the last and what came before it. For the others it
        is noted here, and an empty piece ends the answer.
        """
        previous: list[int] = []
        last: Outputs | None = None
        stopped = False
        for response in calls.pieces(*_call(step, tensors)):
            if stopped:
                continue  # until the model has noticed
            piece = last = _renamed(step, response)
            if "_IS_LAST" not in piece:
                piece["_PREVIOUS_IDS"] = np.array([[previous or [NO_TOKEN]]], dtype=np.int32)
                piece["_IS_LAST"] = np.array([[complete]])
                previous += _tokens(piece).tolist() if not complete else []
            if not _is_last(piece) and cancelled():
                calls.stop()
                stopped = True
                continue
            yield piece
        if last is not None and not stopped and not _is_last(last):
            yield {
                **{name: one for name, one in last.items() if name not in JOINED},
                "_TOKENS_BATCH": np.array([[[NO_TOKEN]]], dtype=np.int32),
                "_SEQUENCE_LENGTH": np.array([[0]], dtype=np.int32),
                "_PREVIOUS_IDS": np.array([[previous or [NO_TOKEN]]], dtype=np.int32),
                "_IS_LAST": np.array([[True]]),
            }


def _finish_reason(tensors: Tensors, answer: Outputs) -> NDArray[Any]:
    """Return, for each beam, `length` where an answer has all tokens that it may have."""
    before = 0
    if scalar(tensors, "exclude_input_in_output") is False:
        before = scalar(tensors, "_REQUEST_INPUT_LEN")
    full = answer["_SEQUENCE_LENGTH"] - before >= scalar(tensors, "max_tokens")
    return np.where(full, b"length", b"stop").astype(object)


def _is_last(piece: Outputs) -> bool:
    return bool(piece["_IS_LAST"].all())


def _tokens(piece: Outputs) -> NDArray[Any]:
    tokens: NDArray[Any] = piece["_TOKENS_BATCH"][0, 0, : piece["_SEQUENCE_LENGTH"].item()]
    return tokens


def _call(step: Step, tensors: Tensors) -> tuple[str, Tensors, tuple[str, ...]]:
    inputs = {name: tensors[one] for name, one in step.input_map.items() if one in tensors}
    return step.model_name, inputs, tuple(step.output_map)


def _renamed(step: Step, response: Outputs) -> Outputs:
    return {one: response[name] for name, one in step.output_map.items() if name in response}


def _joined(pieces: Sequence[Outputs], *, values: bool) -> Outputs:
    """Return pieces as one whose new tokens are all tokens, so that its text is the full text.

    `values`: join what comes a value a token too; else those of the last piece stay.

    Raises:
        RequestError: several beams.
    """
    last = pieces[-1]
    if last["_TOKENS_BATCH"].shape[:2] != ONE_BEAM:
        raise RequestError(
            f"got {last['_TOKENS_BATCH'].shape[1]} beams; tokens are joined for one beam only"
        )
    tokens = np.concatenate([_tokens(piece) for piece in pieces])
    joined = {
        **last,
        # A tensor must hold something; the length says that nothing of it counts.
        "_TOKENS_BATCH": (tokens if len(tokens) else last["_TOKENS_BATCH"][0, 0])[None, None],
        "_SEQUENCE_LENGTH": np.array([[len(tokens)]], dtype=np.int32),
        "_PREVIOUS_IDS": np.array([[[NO_TOKEN]]], dtype=np.int32),
    }
    for name, axis in JOINED.items() if values else ():
        filled = [piece[name] for piece in pieces if name in piece and len(_tokens(piece))]
        if filled:
            joined[name] = np.concatenate(filled, axis=axis)
    return joined
