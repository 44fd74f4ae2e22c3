"""Guides allow the tokens that keep an answer to its form, and its end where the form is full."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from mm_runtime.reference_engine.guides import Guide, Guides
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import GuideKind, GuideRequest
from mm_runtime.serving.prompts.byte_letters import byte_letters
from mm_runtime.serving.prompts.tokens import TextCodec
from support.cases import cases

END = 256
SIZE = 264
"""Of the logits: more than tokens."""

MORE = ("red", "true", '"shape"', "Ġa")
SCHEMA = {
    "type": "object",
    "properties": {
        "shape": {"enum": ["circle", "square"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["shape", "count"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def guides(tmp_path_factory: pytest.TempPathFactory) -> Guides:
    folder = tmp_path_factory.mktemp("bytes")
    letters = byte_letters()
    vocabulary = {letters[byte]: byte for byte in range(256)}
    vocabulary |= {"</s>": END} | {word: END + 1 + at for at, word in enumerate(MORE)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    return Guides(TextCodec(Path(folder)), vocabulary_size=SIZE, end_ids=frozenset({END}))


def _answer(guide: Guide, seed: int, most: int = 400) -> str:
    random = np.random.default_rng(seed)
    byte_of = {letter: byte for byte, letter in byte_letters().items()}
    answer: list[int] = []
    while len(answer) < most:
        allowed = guide.allowed(answer)
        assert allowed.shape == (SIZE,)
        weights = allowed * random.random(SIZE)
        weights[[9, 10, 13, 32]] /= 1000
        token = int(weights.argmax())
        assert allowed[token]
        if token == END:
            break
        answer.append(token)
    content = b"".join(
        bytes([token])
        if token < END
        else bytes(byte_of[letter] for letter in MORE[token - END - 1])
        for token in answer
    )
    return content.decode(errors="replace")


@pytest.mark.parametrize("seed", range(8))
def test_schemas(guides: Guides, seed: int) -> None:
    request = GuideRequest(GuideKind.JSON_SCHEMA, json.dumps(SCHEMA))
    found = json.loads(_answer(guides.make(request), seed))
    assert found["shape"] in {"circle", "square"}
    assert 0 <= found["count"] <= 99
    assert set(found) == {"shape", "count"}


@pytest.mark.parametrize("seed", range(4))
def test_patterns(guides: Guides, seed: int) -> None:
    pattern = "(red|blue) [0-9]{2,4}"
    found = _answer(guides.make(GuideRequest(GuideKind.REGEX, pattern)), seed)
    assert re.fullmatch(pattern, found)


@pytest.mark.parametrize("seed", range(4))
def test_grammars(guides: Guides, seed: int) -> None:
    grammar = 'start: "<" pair ("," pair)? ">"\npair: %json {"enum": [1, 2]}\n'
    found = _answer(guides.make(GuideRequest(GuideKind.LARK, grammar)), seed)
    assert re.fullmatch("<[12](,[12])?>", found)


def test_any_object(guides: Guides) -> None:
    allowed = guides.make(GuideRequest(GuideKind.JSON, "")).allowed([])
    assert allowed[ord("{")]
    assert not allowed[[ord("a"), ord("["), END]].any()


def test_the_same_again(guides: Guides) -> None:
    guide = guides.make(GuideRequest(GuideKind.REGEX, "red|rat"))
    first = guide.allowed([]).copy()
    assert (guide.allowed([]) == first).all()
    assert set(np.flatnonzero(first)) == {ord("r"), END + 1}
    guide.allowed([ord("r")])
    assert set(np.flatnonzero(guide.allowed([ord("r"), ord("e"), ord("d")]))) == {END}


@cases(
    "request_",
    {
        "pattern": GuideRequest(GuideKind.REGEX, "(red"),
        "schema": GuideRequest(GuideKind.JSON_SCHEMA, '{"type": "shape"}'),
        "no-json": GuideRequest(GuideKind.JSON_SCHEMA, "{"),
        "no-rule": GuideRequest(GuideKind.LARK, "start: nothing"),
        "remote": GuideRequest(GuideKind.JSON_SCHEMA, '{"$ref": "https://a.b/c"}'),
    },
)
def test_what_is_not_understood(guides: Guides, request_: GuideRequest) -> None:
    with pytest.raises(RequestError, match="guided_decoding_guide"):
        guides.make(request_)


def test_answers_that_leave_their_form(guides: Guides) -> None:
    """It cannot happen where the mask is kept to; if it does, the request fails alone."""
    guide = guides.make(GuideRequest(GuideKind.REGEX, "red"))
    with pytest.raises(RequestError, match="guided_decoding_guide"):
        guide.allowed([ord("x")])
