"""The model `tensorrt_llm`: tensors to an engine request, pieces of an answer to tensors."""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import (
    GuideKind,
    GuideRequest,
    Piece,
    RawImages,
    Request,
    Sampling,
    Wanted,
)
from mm_runtime.serving.prompts.word_tensors import (
    NO_ID,
    PADDING,
    TokenWords,
    check_end,
    check_words,
    unpack_words,
)
from mm_runtime.serving.sampling_table import OF_TOKENS
from mm_runtime.serving.tensors import Tensors, required, scalar, single, texts

Outputs = dict[str, NDArray[Any]]

MOST_LIKELIEST = 20
"""As OpenAI's API."""

GUIDE = "guided_decoding_guide"

BASE_MODEL = 2**64 - 1
"""-1 as the unsigned tensor `lora_task_id` holds it."""


def read_request(
    inputs: Tensors,
    *,
    end_ids: frozenset[int],
    vocabulary_size: int,
    fresh_seed: int,
    encoder_decoder: bool = False,
    adapters: Mapping[int, str] = MappingProxyType({}),
) -> Request:
    """Return the request that the tensors describe.

    Args:
        inputs: tensors by TensorRT-LLM's names; `seed` and `min_tokens` are read too.
        end_ids: all end tokens of the checkpoint; used when the request's `end_id` is one of them.
        vocabulary_size: length that a bias must have; ids are smaller.
        fresh_seed: seed of a request that names none.
        encoder_decoder: the model has a decoder prompt; the others ignore it, as upstream does.
        adapters: id of each LoRA adapter -> its name.

    Raises:
        RequestError: a value is missing, out of range, or requests what this engine has not.
    """
    _refuse_unsupported(inputs)
    end_id, stop, bad = (
        scalar(inputs, "end_id"),
        _read_words(inputs, "stop_words_list"),
        _read_words(inputs, "bad_words_list"),
    )
    check_end("end_id", end_id, vocabulary_size)
    check_words("stop_words_list", stop, vocabulary_size)
    check_words("bad_words_list", bad, vocabulary_size)
    features = single(inputs, "encoder_input_features")
    rotation = single(inputs, "mrope_rotary_cos_sin")
    return Request(
        ids=_ids(inputs, "input_ids", needed=features is None or not encoder_decoder),
        row_ids=_read_row_ids(inputs),
        salt="".join(texts(inputs, "cache_salt")),
        adapter=_read_adapter(inputs, adapters),
        decoder_ids=_ids(inputs, "decoder_input_ids", needed=True) if encoder_decoder else (),
        table=single(inputs, "prompt_embedding_table"),
        features=features,
        cross_mask=single(inputs, "cross_attention_mask"),
        raw_images=_read_raw_images(inputs),
        rotation=rotation,
        rotation_delta=scalar(inputs, "mrope_position_deltas") or 0,
        max_tokens=required(inputs, "request_output_len"),
        end_ids=_end_ids(end_id, end_ids),
        sampling=_read_sampling(inputs, fresh_seed),
        stop=stop,
        bad=bad,
        bias=_read_bias(inputs, vocabulary_size),
        wanted=Wanted(
            log_probs=bool(scalar(inputs, "return_log_probs")),
            likeliest=_read_likeliest(inputs, vocabulary_size),
            generation_logits=bool(scalar(inputs, "return_generation_logits")),
        ),
        form=_read_form(inputs),
    )


def _read_raw_images(inputs: Tensors) -> RawImages | None:
    text = next(iter(texts(inputs, "prompt_text")), None)
    if text is None:
        return None
    return RawImages(text, single(inputs, "raw_images"), single(inputs, "raw_image_sizes"))


def is_streaming(inputs: Tensors) -> bool:
    return bool(scalar(inputs, "streaming"))


def write_piece(piece: Piece, previous: Sequence[int], names: Collection[str]) -> Outputs:
    """Return the output tensors of one response.

    Ids that are not there are written as -1, since a tensor must hold something: `sequence_length`
    says how many of `output_ids` count. Logits that were not requested are one zero.

    `previous`: tokens of all earlier responses. `names`: outputs that the client requested; others
    are not made. Those that this engine does not measure are absent.
    """
    return {name: write(piece, previous) for name, write in _WRITERS.items() if name in names}


def _logits(found: NDArray[np.float32] | None) -> NDArray[np.float32]:
    return np.zeros((1, 1, 1, 1), np.float32) if found is None else found[None, None]


def _likeliest(piece: Piece, place: int, dtype: type) -> NDArray[Any]:
    return np.array([[[one[place] for one in piece.likeliest] or (PADDING,)]], dtype=dtype)


_WRITERS: Mapping[str, Callable[[Piece, Sequence[int]], NDArray[Any]]] = {
    "output_ids": lambda piece, _: np.array([[piece.ids or (PADDING,)]], dtype=np.int32),
    "sequence_length": lambda piece, _: np.array([[len(piece.ids)]], dtype=np.int32),
    "previous_ids": lambda _, previous: np.array([[previous or (PADDING,)]], dtype=np.int32),
    "is_last": lambda piece, _: np.array([[piece.finish is not None]]),
    "cum_log_probs": lambda piece, _: np.array([[piece.cumulative_log_prob]], dtype=np.float32),
    "output_log_probs": lambda piece, _: np.array([[piece.log_probs or (0.0,)]], dtype=np.float32),
    "context_logits": lambda *_: np.zeros((1, 1, 1), np.float32),
    "generation_logits": lambda piece, _: _logits(piece.generation_logits),
    "likeliest_ids": lambda piece, _: _likeliest(piece, 0, np.int32),
    "likeliest_values": lambda piece, _: _likeliest(piece, 1, np.float32),
    "reused_tokens": lambda piece, _: np.array([[piece.reused]], dtype=np.int32),
    "batch_index": lambda *_: np.zeros((1, 1), dtype=np.int32),
    "sequence_index": lambda *_: np.zeros((1, 1), dtype=np.int32),
}
"""Output -> what makes it of a piece and the tokens before it."""

ANSWERS = frozenset(_WRITERS)
"""Every output that this engine makes."""


def shown_prompt(inputs: Tensors, request: Request, vocabulary_size: int) -> tuple[int, ...]:
    """Return the tokens in front of an answer: the prompt's, when the client wants them.

    As upstream: a stream never repeats the prompt. Rows of the prompt table are no tokens.
    """
    if is_streaming(inputs) or scalar(inputs, "exclude_input_in_output") is not False:
        return ()
    return tuple(token for token in request.prompt if token < vocabulary_size)


def join_pieces(pieces: Sequence[Piece], prompt: tuple[int, ...] = ()) -> Piece:
    """Return consecutive pieces of an answer as one, the prompt's tokens in front of them."""
    last = pieces[-1]
    if len(pieces) == 1 and not prompt:
        return last
    logits = [piece.generation_logits for piece in pieces if piece.generation_logits is not None]
    return Piece(
        ids=(*prompt, *(token for piece in pieces for token in piece.ids)),
        finish=last.finish,
        log_probs=tuple(value for piece in pieces for value in piece.log_probs),
        cumulative_log_prob=last.cumulative_log_prob,
        likeliest=tuple(one for piece in pieces for one in piece.likeliest),
        generation_logits=np.concatenate(logits) if logits else None,
        reused=last.reused,
    )


def _read_sampling(inputs: Tensors, fresh_seed: int) -> Sampling:
    chosen: dict[str, Any] = {"seed": fresh_seed}
    for one in OF_TOKENS:
        for tensor in one.tensors:  # the newer name wins
            value = scalar(inputs, tensor)
            chosen |= {} if value is None else {one.name: value}
    sampling = Sampling(**chosen)
    for one in OF_TOKENS:
        value, (is_allowed, words) = getattr(sampling, one.name), one.allowed
        if not is_allowed(value):
            raise RequestError(f"{one.inputs[0]} is {value}; {words} is allowed")
        # With them every logit is NaN or infinite, and the answer is empty or the first token.
        if not isfinite(value):
            raise RequestError(f"{one.name} is {value}; a finite number is needed")
    # A generator takes signed 64-bit seeds; Triton's tensor is unsigned.
    return Sampling(**{**vars(sampling), "seed": sampling.seed % 2**63})


_UNSUPPORTED = (
    "draft_input_ids",
    "draft_logits",
    "lora_weights",
    "lora_config",
    "context_phase_params",
    "runtime_top_p_min",
    "runtime_top_p_decay",
    "runtime_top_p_reset_ids",
)
"""Inputs of TensorRT-LLM that would change the answer, and that this engine cannot honour."""


_LENGTHS = {"input_ids": "input_lengths", "decoder_input_ids": "decoder_input_lengths"}


def _ids(inputs: Tensors, name: str, *, needed: bool) -> tuple[int, ...]:
    ids = single(inputs, name)
    if ids is None:
        if needed:
            raise RequestError(f"{name} is missing")
        return ()
    length = required(inputs, _LENGTHS[name])
    if not 1 <= length <= len(ids):
        raise RequestError(f"{_LENGTHS[name]} is {length}, but {name} holds {len(ids)} ids")
    return tuple(ids[:length].tolist())


def _read_row_ids(inputs: Tensors) -> NDArray[np.uint64] | None:
    found = single(inputs, "prompt_table_extra_ids")
    ids = single(inputs, "input_ids")
    if found is None or ids is None:
        return None
    if len(found) != len(ids):
        raise RequestError(
            f"prompt_table_extra_ids has {len(found)} values and input_ids {len(ids)}; one for "
            "each is needed, 0 for tokens"
        )
    return found


def _refuse_unsupported(inputs: Tensors) -> None:
    for name in _UNSUPPORTED:
        if name in inputs:
            raise RequestError(f"{name} is not supported by the Reference engine; leave it out")
    if scalar(inputs, "return_context_logits"):
        raise RequestError(
            "return_context_logits is not supported by the Reference engine; leave it out"
        )
    width = scalar(inputs, "beam_width")
    if width not in {None, 1}:
        raise RequestError(f"beam_width is {width}; the Reference engine searches no beams, use 1")
    sequences = scalar(inputs, "num_return_sequences")
    if sequences is not None and sequences != 1:
        raise RequestError(f"num_return_sequences is {sequences}; send one request for each")


def _read_adapter(inputs: Tensors, known: Mapping[int, str]) -> int | None:
    """Return the id of the LoRA adapter that is requested, None for the base model."""
    requested = scalar(inputs, "lora_task_id")
    if requested is None or requested == BASE_MODEL:
        return None
    if requested not in known:
        listed = ", ".join(f"{uid} ({name})" for uid, name in sorted(known.items()))
        served = f"this model has {listed}" if known else "this model has no LoRA adapters"
        raise RequestError(
            f"lora_task_id {requested} is unknown: {served}; leave it out for the base model"
        )
    return int(requested)


def _read_likeliest(inputs: Tensors, vocabulary_size: int) -> int:
    wanted = scalar(inputs, "likeliest_log_probs") or 0
    most = min(MOST_LIKELIEST, vocabulary_size)
    if not 0 <= wanted <= most:
        raise RequestError(f"likeliest_log_probs is {wanted}; 0 to {most} are reported")
    return int(wanted)


def _read_form(inputs: Tensors) -> GuideRequest | None:
    """Return the form that the answer must have, None for any."""
    kind, guide = scalar(inputs, "guided_decoding_guide_type"), scalar(inputs, GUIDE)
    if kind is None:
        if guide is not None:
            raise RequestError(f"guided_decoding_guide_type is missing; {GUIDE} is there")
        return None
    name = kind.decode(errors="replace")
    if name not in set(GuideKind):
        known = ", ".join(GuideKind)
        raise RequestError(f"guided_decoding_guide_type is {name[:40]!r}; known are {known}")
    if guide is None and name != GuideKind.JSON:
        raise RequestError(f"{GUIDE} is missing")
    text = b"" if guide is None else guide
    return GuideRequest(GuideKind(name), text.decode(errors="replace"))


def _end_ids(end_id: int | None, known: frozenset[int]) -> frozenset[int]:
    if end_id is None or end_id in known:
        return known
    return frozenset() if end_id == NO_ID else frozenset({end_id})


def _read_words(inputs: Tensors, name: str) -> TokenWords:
    packed = single(inputs, name)
    return () if packed is None else unpack_words(packed)


def _read_bias(inputs: Tensors, vocabulary_size: int) -> NDArray[np.float32] | None:
    bias = single(inputs, "embedding_bias")
    if bias is not None and np.isnan(bias).any():
        raise RequestError("embedding_bias holds NaN, expected a weight for each word")
    if bias is not None and bias.shape != (vocabulary_size,):
        raise RequestError(
            f"embedding_bias has shape {list(bias.shape)}, expected [{vocabulary_size}]"
        )
    return bias
