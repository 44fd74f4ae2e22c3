"""Scores of a prompt from tensors: places in its text, and memory within what is claimed for it."""

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from mm_edge.json_text import encode_in_parts
from mm_runtime.gateway.api.scores import TokenScore, of_prompt, of_text
from mm_runtime.gateway.api.text_places import spans_of
from mm_runtime.gateway.backends.triton_prompt_scores import (
    PROMPT_OUTPUTS,
    read_prompt_scores,
)
from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.prepared import SCORE_BYTES, STATED_SCORE_BYTES
from mm_runtime.serving.prompts.scored import MOST_SCORES
from mm_runtime.serving.prompts.spelling import Spelled

BROKEN = "\N{REPLACEMENT CHARACTER}"


def spelled(text: str, content: bytes | None = None) -> Spelled:
    """Return a token of a text, or of a part of a character."""
    return Spelled(text, text.encode() if content is None else content)


@pytest.mark.parametrize(
    ("written", "tokens", "expected"),
    [
        pytest.param("ab", ["a", "b"], [(0, 1), (1, 2)], id="plain"),
        pytest.param("ab", ["<s>", "a", "b"], [(0, 0), (0, 1), (1, 2)], id="begin-token"),
        pytest.param("<s>a", ["<s>", "a"], [(0, 3), (3, 4)], id="begin-token-in-the-text"),
        pytest.param("a b", ["<s>", " a", " b"], [(0, 0), (0, 1), (1, 3)], id="blank-of-the-first"),
        pytest.param(
            "hé.",
            ["h", (BROKEN, b"\xc3"), (BROKEN, b"\xa9"), "."],
            [(0, 1), (1, 1), (1, 2), (2, 3)],
            id="parts-of-a-character",
        ),
        pytest.param(
            f"{BROKEN}a", [(BROKEN, b"\xe9"), "a"], [(0, 1), (1, 2)], id="no-character-at-all"
        ),
        pytest.param(
            f"{BROKEN}a",
            [(BROKEN, b"\xef"), "a"],
            [(0, 1), (1, 2)],
            id="a-byte-that-its-replacement-begins-with",
        ),
        pytest.param(
            f"{BROKEN}a",
            [(BROKEN, b"\xef"), (BROKEN, b"\xbf"), (BROKEN, b"\xbd"), "a"],
            [(0, 0), (0, 0), (0, 1), (1, 2)],
            id="the-replacement-itself",
        ),
        pytest.param("日本", ["日", "本"], [(0, 1), (1, 2)], id="three-bytes"),
        pytest.param("😀a", ["😀", "a"], [(0, 1), (1, 2)], id="four-bytes"),
        pytest.param(
            "\N{FULLWIDTH LATIN SMALL LETTER A}b",
            ["a", "b", ""],
            [(0, 0), (0, 0), (0, 2)],
            id="normalised-away",
        ),
        pytest.param("x", ["abc", "def"], [(0, 0), (0, 1)], id="another-text"),
    ],
)
def test_places_in_a_text(
    written: str, tokens: list[str | tuple[str, bytes]], expected: list[tuple[int, int]]
) -> None:
    """In characters, in order, up to the end of the text."""
    given = [spelled(*([one] if isinstance(one, str) else one)) for one in tokens]
    assert [*spans_of(written, given)] == expected


@dataclass(frozen=True)
class Tensors:
    """Those of a response, by name."""

    ids: NDArray[np.int32]
    own: NDArray[np.float32]
    ranks: NDArray[np.int32]
    likeliest: NDArray[np.int32]
    values: NDArray[np.float32]

    def response(self) -> Any:
        """Return the message of Triton."""
        found = service_pb2.ModelInferResponse()
        tensors = (self.ids, self.own, self.ranks, self.likeliest, self.values)
        for name, one in zip(PROMPT_OUTPUTS, tensors, strict=True):
            kind = "FP32" if one.dtype == np.float32 else "INT32"
            found.outputs.add(name=name, datatype=kind, shape=one.shape)
            found.raw_output_contents.append(one.tobytes())
        return found


def made(tokens: int, likeliest: int) -> Tensors:
    """Return tensors of noise; of none of the likeliest ones Triton has one value."""
    random = np.random.default_rng(1)
    shape = (1, tokens, likeliest) if likeliest else (1, 1, 1)
    return Tensors(
        random.integers(0, 30_000, (1, tokens), dtype=np.int32),
        random.normal(size=(1, tokens)).astype(np.float32),
        random.integers(1, 30_000, (1, tokens), dtype=np.int32),
        random.integers(0, 30_000, shape, dtype=np.int32),
        random.normal(size=shape).astype(np.float32),
    )


def spell(token: int) -> Spelled:
    """Return a word."""
    return spelled(f" w{token}")


def _both(scores: Sequence[TokenScore], likeliest: int) -> object:
    """Return what an answer has that repeats its prompt and states its scores."""
    return {"logprobs": of_text(scores, likeliest), "prompt": of_prompt(scores, likeliest)}


@pytest.mark.parametrize(
    ("write", "claimed", "unknown"),
    [
        pytest.param(of_text, SCORE_BYTES, 2, id="echo"),
        pytest.param(of_prompt, STATED_SCORE_BYTES, 1, id="prompt_logprobs"),
        pytest.param(_both, STATED_SCORE_BYTES, 3, id="both"),
    ],
)
@pytest.mark.parametrize("likeliest", [0, 1, 20])
def test_the_most_scores_fit_what_is_claimed(
    likeliest: int,
    write: Callable[[Sequence[TokenScore], int], object],
    claimed: int,
    unknown: int,
) -> None:
    """From the tensors to the JSON of the answer."""
    tensors = made(MOST_SCORES // (1 + likeliest), likeliest)
    response = tensors.response()
    written = "".join(spell(token).text for token in tensors.ids[0].tolist())
    tracemalloc.start()
    try:
        scores = read_prompt_scores(response, written, likeliest, spell)
        content = encode_in_parts(write(scores, likeliest))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(scores) == tensors.ids.size
    assert content.count(b"null") == unknown
    assert peak <= MOST_SCORES * claimed


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"own": np.zeros((1, 3), np.float32)}, id="own"),
        pytest.param({"ranks": np.zeros((1, 3), np.int32)}, id="ranks"),
        pytest.param({"likeliest": np.zeros((1, 1, 1), np.int32)}, id="likeliest"),
        pytest.param({"values": np.zeros((1, 3, 2), np.float32)}, id="values"),
    ],
)
def test_scores_that_are_missing(changes: dict[str, Any]) -> None:
    """The engine has failed, not the client."""
    tensors = Tensors(**{**vars_of(made(4, 2)), **changes})
    with pytest.raises(EngineFailedError):
        read_prompt_scores(tensors.response(), "", 2, spell)


def vars_of(tensors: Tensors) -> dict[str, Any]:
    """Return the fields."""
    return dict(vars(tensors))


def test_no_scores_at_all() -> None:
    """A response without the outputs."""
    with pytest.raises(EngineFailedError):
        read_prompt_scores(service_pb2.ModelInferResponse(), "", 0, spell)
