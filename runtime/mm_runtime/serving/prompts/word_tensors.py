"""Stop words, bad words and biases of a request as the tensors of the language model.

An id past the vocabulary is an index past the logits: on the Reference engine an error in the midst
of a step, in a kernel on a GPU whatever lies there. So it is refused before anything runs.

A list of token sequences travels as int32 [2, n]: row 0 holds all ids one after another, row 1 the
end offset of each sequence, then -1. Example: [[5], [7, 8]] -> [[5, 7, 8], [1, 3, -1]].
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.tensors import Tensors, scalar, single, texts

PADDING = -1
"""Value of an offset that ends no sequence."""

ROWS = 2
"""Ids and offsets."""

TokenWords = tuple[tuple[int, ...], ...]


def pack_words(sequences: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Return int32 [2, n] for the sequences; empty sequences are left out."""
    kept = [list(word) for word in sequences if len(word)]
    ids = [token for word in kept for token in word]
    packed = np.full((ROWS, max(1, len(ids))), PADDING, dtype=np.int32)
    packed[0, :] = 0
    packed[0, : len(ids)] = ids
    packed[1, : len(kept)] = np.cumsum([len(word) for word in kept], dtype=np.int32)
    return packed


def unpack_words(packed: NDArray[np.int32]) -> TokenWords:
    """Return the sequences of an int32 [2, n] tensor.

    Raises:
        RequestError: another shape, or offsets that do not rise within the row of ids.
    """
    if packed.ndim != ROWS or packed.shape[0] != ROWS:
        raise RequestError(f"word list: got shape {list(packed.shape)}, expected [2, n]")
    ids, offsets = packed.tolist()
    words: list[tuple[int, ...]] = []
    start = 0
    for end in offsets:
        if end == PADDING:
            break
        if not start < end <= len(ids):
            raise RequestError(
                f"word list: offset {end} after {start} in a row of {len(ids)} ids; "
                "offsets must rise and stay within the row"
            )
        words.append(tuple(ids[start:end]))
        start = end
    return tuple(words)


NO_ID = -1
"""No token: what upstream's client sends for an answer that only its length ends."""


def check_end(name: str, token: int | None, vocabulary_size: int) -> None:
    """Refuse an end or padding token that the model does not have; `NO_ID` is none."""
    if token is not None and not NO_ID <= token < vocabulary_size:
        raise RequestError(
            f"{name} is {token}; a token of the model, 0 to {vocabulary_size - 1}, is needed, or "
            f"{NO_ID} for none"
        )


def end_tensors(
    inputs: Tensors, codec: TextCodec, vocabulary_size: int
) -> dict[str, NDArray[np.int32]]:
    """Return end and padding token of a request, int32 [1, 1]: its own, or the checkpoint's."""
    end, pad = scalar(inputs, "END_ID"), scalar(inputs, "PAD_ID")
    check_end("end_id", end, vocabulary_size)
    check_end("pad_id", pad, vocabulary_size)
    return {
        "OUT_END_ID": np.array([[codec.end_id if end is None else end]], dtype=np.int32),
        "OUT_PAD_ID": np.array([[codec.pad_id if pad is None else pad]], dtype=np.int32),
    }


def check_words(name: str, sequences: TokenWords, vocabulary_size: int) -> None:
    """Refuse words with ids that are no tokens."""
    for token in (token for sequence in sequences for token in sequence):
        if not 0 <= token < vocabulary_size:
            raise RequestError(
                f"{name} holds id {token}; ids of the model's tokens, 0 to "
                f"{vocabulary_size - 1}, are needed"
            )


Outputs = dict[str, NDArray[Any]]


def word_tensors(inputs: Tensors, codec: TextCodec, vocabulary_size: int) -> Outputs:
    """Return the words that end an answer or must not be in it, as ids; none that were not sent.

    A word with a token that only the tokenizer has (an image's mark) is left out: the model can
    never say it, and its id lies past the logits.
    """
    outputs: Outputs = {}
    for source, target in (
        ("STOP_WORDS_DICT", "STOP_WORDS_IDS"),
        ("BAD_WORDS_DICT", "BAD_WORDS_IDS"),
    ):
        words = [word for word in texts(inputs, source) if word]
        if words:
            coded = map(codec.encode_word, words)
            said = [word for word in coded if all(token < vocabulary_size for token in word)]
            outputs[target] = pack_words(said)[np.newaxis]
    return outputs


def bias_tensor(inputs: Tensors, codec: TextCodec, vocabulary_size: int) -> Outputs:
    """Spread `EMBEDDING_BIAS_WEIGHTS` over tokens.

    They are of the words of `EMBEDDING_BIAS_WORDS`, then of the tokens of `EMBEDDING_BIAS_IDS`.

    Raises:
        RequestError: not one weight for each, or a token that the model cannot say.
    """
    words = [word for word in texts(inputs, "EMBEDDING_BIAS_WORDS") if word]
    named = single(inputs, "EMBEDDING_BIAS_IDS")
    weights = single(inputs, "EMBEDDING_BIAS_WEIGHTS")
    tokens = [] if named is None else named.tolist()
    count = len(words) + len(tokens)
    if not count and (weights is None or not len(weights)):
        return {}
    if weights is None or len(weights) != count:
        raise RequestError(
            f"embedding_bias_words has {count} words and embedding_bias_weights "
            f"{0 if weights is None else len(weights)} weights; send one for each word"
        )
    bias = np.zeros((1, vocabulary_size), dtype=np.float32)
    of_words = [(repr(word), codec.encode_word(word)) for word in words]
    of_tokens = [(f"token {token}", [token]) for token in tokens]
    for (name, ids), weight in zip([*of_words, *of_tokens], weights, strict=True):
        if not all(0 <= token < vocabulary_size for token in ids):
            raise RequestError(
                f"embedding_bias_words: {name} has a token that the model cannot say; leave it out"
            )
        bias[0, ids] += weight
    return {"EMBEDDING_BIAS": bias}
