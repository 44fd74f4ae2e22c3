"""Stop words, bad words and biases of a request as the tensors of the language model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.words import pack_words
from mm_runtime.serving.tensors import Tensors, single, texts

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
