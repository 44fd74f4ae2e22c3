"""Answers of a form from engines of TensorRT-LLM: real tritonserver and gateway, stand-in backend.

The backend keeps an answer to what it is sent with the tokenizer's table of the engine, by the
Reference engine's guides; without its table it refuses every form, as upstream's does.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from mm_api.trtllm_layout import GUIDED_FOLDER, TOKENIZER_INFO
from mm_runtime.base import manifest as manifests
from support import tool_templates
from support.cases import cases
from support.model_configs import VERSIONS
from support.native.engines import spelling_engine
from support.native.image import make_image
from support.real_gateway import RealGateway, run_pair

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(600)]

NEWEST = VERSIONS[-1]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/one"}, "b": {"type": ["boolean", "null"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {"one": {"enum": [1, "two"]}},
}
NO_BLANKS = {str(ord(blank)): -100 for blank in " \t\n\r"}
"""Random weights may prefer them where JSON may have them, until `max_tokens`."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGateway]:
    """A pod of an engine whose tokens are bytes, and whose model calls tools as Llama 3 does."""
    folder = tmp_path_factory.mktemp("native")
    image = make_image(folder / "image", NEWEST)
    engine = spelling_engine(folder, NEWEST, tool_templates.LLAMA)
    with run_pair(engine.built, folder, program=image.program) as pair:
        yield pair


@pytest.fixture(scope="module")
def client(pair: RealGateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


def _answer(pair: RealGateway, client: OpenAI, **fields: Any) -> Any:
    body = {"model": pair.model, "messages": [{"role": "user", "content": "Will it rain?"}]}
    limits = {"max_tokens": 120, "temperature": 0, "logit_bias": NO_BLANKS}
    answer = client.chat.completions.create(**body, extra_body={**limits, **fields})
    return answer.choices[0]


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def test_free_answers_are_noise(pair: RealGateway, client: OpenAI) -> None:
    """What the forms below make of it, the model would not say by itself."""
    text = _answer(pair, client).message.content
    assert not re.match(r"\s*\{|re+d$|wet$", text)


@pytest.mark.parametrize("spelt", ["response_format", "structured_outputs"])
def test_schemas(pair: RealGateway, client: OpenAI, spelt: str) -> None:
    """The answer is the object; references and lists of types are passed through."""
    form = {"response_format": _schema(SCHEMA), "structured_outputs": {"json": SCHEMA}}
    choice = _answer(pair, client, **{spelt: form[spelt]})
    assert choice.finish_reason == "stop"
    found = json.loads(choice.message.content)
    assert set(found) == {"a", "b"}
    assert (found["a"] in (1, "two"), found["b"] in (True, False, None)) == (True, True)


@pytest.mark.parametrize("stream", [False, True])
def test_patterns(pair: RealGateway, client: OpenAI, *, stream: bool) -> None:
    """Sampled answers match the pattern, to their end; also streamed, and of two at a time."""
    pattern = r"re{1,4}d|\d{2}-[^a-z]"
    body: dict[str, Any] = {"model": pair.model, "messages": [{"role": "user", "content": "?"}]}
    more = {"structured_outputs": {"regex": pattern}}
    body |= {"max_tokens": 20, "temperature": 2.0, "seed": 3, "n": 2, "extra_body": more}
    texts = ["", ""]
    if stream:
        for chunk in client.chat.completions.create(**body, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
    else:
        answer = client.chat.completions.create(**body)
        texts = [one.message.content or "" for one in answer.choices]
    assert [text for text in texts if not re.fullmatch(pattern, text)] == []


@cases(
    "fields param words",
    {
        "dropped-keyword": (
            {"response_format": _schema({"type": "array", "uniqueItems": True})},
            "response_format.json_schema.schema",
            "uniqueItems",
        ),
        "look-ahead": (
            {"structured_outputs": {"regex": "(?=a)b"}},
            "structured_outputs.regex",
            "form",
        ),
        "large": (
            {"response_format": _schema({"type": "object", "title": "x" * 70_000})},
            "response_format.json_schema.schema",
            "at most 65536",
        ),
    },
)
def test_refusals(
    pair: RealGateway, client: OpenAI, fields: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(BadRequestError) as refusal:
        _answer(pair, client, **fields)
    assert refusal.value.param == param
    assert words in refusal.value.message
    assert _answer(pair, client, structured_outputs={"choice": ["wet"]}).message.content == "wet"


def test_an_engine_that_was_built_before(tmp_path: Path) -> None:
    """It is served as it was, and forms are refused with what builds it again."""
    image = make_image(tmp_path / "image", NEWEST)
    engine = spelling_engine(tmp_path, NEWEST, tool_templates.LLAMA, {"guidedDecoding": "Off"})
    assert not (engine.built.directory / GUIDED_FOLDER).exists()
    with (
        run_pair(engine.built, tmp_path, program=image.program) as pair,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=120) as client,
    ):
        assert _answer(pair, client, max_tokens=4).message.content is not None
        with pytest.raises(
            BadRequestError, match=r"spec\.engine\.guidedDecoding to Auto"
        ) as refusal:
            _answer(pair, client, structured_outputs={"choice": ["wet"]})
    assert (refusal.value.param, refusal.value.code) == (
        "structured_outputs.choice",
        "unsupported_parameter",
    )


def test_the_table_is_part_of_the_engine(tmp_path: Path) -> None:
    """Its bytes are in the manifest, so pods verify them."""
    engine = spelling_engine(tmp_path, NEWEST, tool_templates.LLAMA)
    manifest = manifests.read(engine.built.directory / "manifest.json")
    assert f"{GUIDED_FOLDER}/{TOKENIZER_INFO}" in {file.path for file in manifest.files}
