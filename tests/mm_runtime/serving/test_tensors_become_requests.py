"""Tensors of TensorRT-LLM's names become a request, or a message that names the tensor."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.generation import ANSWERS, join_pieces, read_request, write_piece
from mm_runtime.serving.generate.request import Finish, Piece, Request, Sampling, Wanted
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.word_tensors import bias_tensor, pack_words, unpack_words
from support import tiny_llava
from support.cases import cases
from support.tiny_llava import CHECKPOINT

Tensors = dict[str, NDArray[np.generic]]
VOCABULARY = 20


def _int(*values: int) -> NDArray[np.int32]:
    return np.array([values], dtype=np.int32)


def _float(value: float) -> NDArray[np.float32]:
    return np.array([[value]], dtype=np.float32)


MINIMUM: Tensors = {
    "input_ids": _int(2, 5, 6),
    "input_lengths": np.array([3], dtype=np.int32),
    "request_output_len": np.array([7], dtype=np.int32),
}


ADAPTERS = {1: "legal", 0: "french"}


def _read(
    *, adapters: Mapping[int, str] = MappingProxyType({}), **changes: NDArray[np.generic]
) -> Request:
    return read_request(
        {**MINIMUM, **changes},
        end_ids=frozenset({3}),
        vocabulary_size=VOCABULARY,
        fresh_seed=11,
        adapters=adapters,
    )


def test_features_belong_to_images() -> None:
    marks = np.array([[0, 7, 7]], np.uint64)
    request = _read(prompt_table_extra_ids=marks, cache_salt=np.array([[b"ann"]], np.object_))
    assert request.row_ids is not None
    assert (request.row_ids.tolist(), request.salt) == ([0, 7, 7], "ann")
    with pytest.raises(RequestError, match="prompt_table_extra_ids has 2 values and input_ids 3"):
        _read(prompt_table_extra_ids=marks[:, 1:])


def test_minimum() -> None:
    expected = Request(
        ids=(2, 5, 6), max_tokens=7, end_ids=frozenset({3}), sampling=Sampling(seed=11)
    )
    assert expected == _read()


def test_padding_after_the_length_is_left_out() -> None:
    assert _read(input_lengths=np.array([2], dtype=np.int32)).ids == (2, 5)


def test_every_sampling_tensor_arrives() -> None:
    actual = _read(
        temperature=_float(0.5),
        runtime_top_k=_int(4),
        runtime_top_p=_float(0.25),
        repetition_penalty=_float(1.5),
        presence_penalty=_float(0.5),
        frequency_penalty=_float(-0.5),
        min_length=_int(2),
        random_seed=np.array([[9]], dtype=np.uint64),
    ).sampling
    assert Sampling(0.5, 4, 0.25, 1.5, 0.5, -0.5, 2, 9) == actual


@cases(
    "older newer field",
    {
        "seed": ("random_seed", "seed", "seed"),
        "min tokens": ("min_length", "min_tokens", "min_tokens"),
    },
)
def test_newer_name_wins(older: str, newer: str, field: str) -> None:
    tensors: Tensors = {older: _int(1), newer: _int(2)}
    assert (
        getattr(_read(**{older: _int(1)}).sampling, field),
        getattr(_read(**tensors).sampling, field),
    ) == (1, 2)


def test_unsigned_seeds_fit_the_generator() -> None:
    assert _read(seed=np.array([[2**64 - 1]], dtype=np.uint64)).sampling.seed == 2**63 - 1


@cases(
    "end_id expected",
    {
        "the checkpoint's": (3, {3}),
        "another one": (8, {8}),
        "none, as upstream's client says": (-1, set()),
    },
)
def test_end_id(end_id: int, expected: set[int]) -> None:
    assert expected == set(_read(end_id=_int(end_id)).end_ids)


def test_words_and_wishes() -> None:
    words = pack_words([[5], [6, 7]])[np.newaxis]
    request = _read(
        stop_words_list=words, bad_words_list=words, return_log_probs=np.array([[True]])
    )
    expected = (((5,), (6, 7)), ((5,), (6, 7)), Wanted(log_probs=True))
    assert expected == (request.stop, request.bad, request.wanted)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"temperature": _float(-1)}, "temperature is -1.0", id="temperature"),
        pytest.param({"runtime_top_k": _int(-2)}, "top_k is -2", id="top_k"),
        pytest.param({"runtime_top_p": _float(1.5)}, "top_p is 1.5", id="top_p"),
        pytest.param({"repetition_penalty": _float(0)}, "repetition_penalty is 0", id="repetition"),
        pytest.param({"min_length": _int(-1)}, "min_length is -1", id="min length"),
        *(
            pytest.param({name: _float(value)}, "a finite number is needed", id=f"{name} {value}")
            for name in ("temperature", "presence_penalty", "frequency_penalty")
            for value in (np.inf, -np.inf, np.nan)
            if name != "temperature" or value == np.inf
        ),
        pytest.param({"repetition_penalty": _float(np.inf)}, "finite", id="infinite repetition"),
        pytest.param({"runtime_top_p": _float(np.nan)}, "top_p is nan", id="top_p nan"),
        pytest.param(
            {"embedding_bias": np.full((1, 20), np.nan, np.float32)}, "holds NaN", id="bias nan"
        ),
        pytest.param({"end_id": _int(20)}, "end_id is 20; a token of the model, 0 to 19", id="end"),
        pytest.param({"end_id": _int(-2)}, "end_id is -2", id="negative end"),
        *(
            pytest.param(
                {name: pack_words([[3, token]])[np.newaxis]},
                f"{name} holds id {token}",
                id=f"{name} {token}",
            )
            for name in ("stop_words_list", "bad_words_list")
            for token in (20, -1)
        ),
        pytest.param({"beam_width": _int(2)}, "beam_width is 2", id="beams"),
        pytest.param({"return_context_logits": np.array([[True]])}, "return_context", id="scores"),
        pytest.param({"num_return_sequences": _int(2)}, "num_return_sequences", id="sequences"),
        pytest.param(
            {"lora_task_id": _int(1)},
            "lora_task_id 1 is unknown: this model has no LoRA adapters; leave it out",
            id="lora",
        ),
        pytest.param({"input_lengths": _int(4)}, "input_lengths is 4", id="length past ids"),
        pytest.param({"input_ids": np.zeros((2, 3), np.int32)}, "one prompt", id="batch of two"),
        pytest.param({"temperature": np.zeros((1, 2), np.float32)}, "2 values", id="two values"),
        pytest.param(
            {"embedding_bias": np.zeros((1, 3), np.float32)}, "expected \\[20\\]", id="short bias"
        ),
        pytest.param(
            {"stop_words_list": np.zeros((1, 3, 2), np.int32)}, "expected \\[2, n\\]", id="words"
        ),
    ],
)
def test_wrong_values_are_named(changes: Tensors, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        _read(**changes)


@cases(
    "requested expected",
    {
        "none": ({}, None),
        "known": ({"lora_task_id": _int(1)}, 1),
        "base": ({"lora_task_id": np.array([[-1]]).astype(np.uint64)}, None),
    },
)
def test_adapters_are_requested_by_id(requested: Tensors, expected: int | None) -> None:
    """An id names an adapter; none, and -1 as upstream has it, mean the base model."""
    assert expected == _read(adapters=ADAPTERS, **requested).adapter


def test_unknown_adapters_are_given_the_known_ones() -> None:
    with pytest.raises(RequestError, match=r"this model has 0 \(french\), 1 \(legal\); leave it"):
        _read(adapters=ADAPTERS, lora_task_id=_int(2))


@pytest.mark.parametrize("name", ["input_ids", "input_lengths", "request_output_len"])
def test_missing_tensors_are_named(name: str) -> None:
    tensors = {key: value for key, value in MINIMUM.items() if key != name}
    with pytest.raises(RequestError, match=f"{name} is missing"):
        read_request(tensors, end_ids=frozenset(), vocabulary_size=9, fresh_seed=0)


def test_piece_fills_every_output() -> None:
    """Empty lists are padded, since a tensor must hold something; the length says zero."""
    outputs = write_piece(Piece(ids=(), finish=Finish.STOP), (), ANSWERS)
    expected = {
        "output_ids": [[[-1]]],
        "sequence_length": [[0]],
        "previous_ids": [[[-1]]],
        "is_last": [[True]],
        "cum_log_probs": [[0.0]],
        "output_log_probs": [[[0.0]]],
        "context_logits": [[[0.0]]],
        "generation_logits": [[[[0.0]]]],
        "likeliest_ids": [[[-1]]],
        "likeliest_values": [[[-1.0]]],
        "reused_tokens": [[0]],
        "batch_index": [[0]],
        "sequence_index": [[0]],
    }
    assert expected == {name: array.tolist() for name, array in outputs.items()}


def test_only_what_was_requested_is_made() -> None:
    """A name that the engine does not measure is no output either."""
    piece = Piece((7,), None)
    requested = {"output_ids", "previous_ids", "kv_cache_reused_blocks"}
    outputs = write_piece(piece, [5, 6], requested)
    expected = {"output_ids": [[[7]]], "previous_ids": [[[5, 6]]]}
    assert expected == {name: array.tolist() for name, array in outputs.items()}


@pytest.mark.parametrize("finish", [None, Finish.LENGTH], ids=["running", "ended"])
def test_pieces_join_to_one(finish: Finish | None) -> None:
    rows = np.arange(9, dtype=np.float32).reshape(3, 3)
    pieces = [
        Piece((5,), None, (-0.5,), -0.5, generation_logits=rows[:1]),
        Piece((6, 7), finish, (-0.25, -1.0), -1.75, generation_logits=rows[1:]),
    ]
    joined = join_pieces(pieces)
    assert (joined.ids, joined.finish) == ((5, 6, 7), finish)
    assert (joined.log_probs, joined.cumulative_log_prob) == ((-0.5, -0.25, -1.0), -1.75)
    assert joined.generation_logits is not None
    assert rows.tolist() == joined.generation_logits.tolist()
    logits = write_piece(joined, (), {"generation_logits"})["generation_logits"]
    assert logits.shape == (1, 1, 3, 3)


def bias(words: list[str], weights: list[float] | None) -> dict[str, NDArray[Any]]:
    inputs = {"EMBEDDING_BIAS_WORDS": np.array([[word.encode() for word in words]], np.object_)}
    given = {} if weights is None else {"EMBEDDING_BIAS_WEIGHTS": np.array([weights], np.float32)}
    return bias_tensor({**inputs, **given}, TextCodec(CHECKPOINT), tiny_llava.VOCABULARY)


def test_weights_lie_at_their_words() -> None:
    found = bias(["red", "blue"], [2.5, -1.0])["EMBEDDING_BIAS"]
    assert (found.shape, sorted(found[found != 0].tolist())) == (
        (1, tiny_llava.VOCABULARY),
        [-1.0, 2.5],
    )


def test_nothing_is_nothing() -> None:
    assert bias([], None) == bias([], []) == {}


@cases(
    "words weights",
    {
        "words-alone": (["red"], None),
        "weights-alone": ([], [1.0]),
        "too-many": (["red"], [1.0, 2.0]),
    },
)
def test_each_word_has_a_weight(words: list[str], weights: list[float] | None) -> None:
    with pytest.raises(RequestError, match=f"has {len(words)} words .* send one for each word"):
        bias(words, weights)


@cases(
    "words expected",
    {
        "one token": ([[5]], [[5], [1]]),
        "two sequences": ([[5], [7, 8]], [[5, 7, 8], [1, 3, -1]]),
        "empty sequence left out": ([[5], [], [7]], [[5, 7], [1, 2]]),
        "none": ([], [[0], [-1]]),
    },
)
def test_layout_is_tensorrt_llms(words: list[list[int]], expected: list[list[int]]) -> None:
    assert expected == pack_words(words).tolist()


@cases("words", {"several lengths": ((5,), (7, 8), (1, 2, 3)), "one": ((9,),), "none": ()})
def test_reading_undoes_writing(words: tuple[tuple[int, ...], ...]) -> None:
    assert words == unpack_words(pack_words(words))


@cases(
    "packed message",
    {
        "one row": ([[1, 2, 3]], "expected \\[2, n\\]"),
        "falling offsets": ([[1, 2], [2, 1]], "offsets must rise"),
        "offset past the row": ([[1, 2], [5, -1]], "within the row"),
    },
)
def test_other_tensors_are_refused(packed: list[list[int]], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        unpack_words(np.array(packed, dtype=np.int32))
