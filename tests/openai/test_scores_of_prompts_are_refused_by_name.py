"""`echo` with `logprobs` where prompts have no scores: refused, and either of them acts alone."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import BadRequestError, OpenAI

from support import tool_templates
from support.build_plans import serving_plan
from support.families import own_classes, texts
from support.families.pipeline import build
from support.model_configs import VERSIONS
from support.native.engines import spelling_engine
from support.native.image import make_image
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

TEXT = "a red square"
SECONDS = 60


@dataclass(frozen=True)
class Served:
    """A model, the client of its gateway, and why its prompts have no scores."""

    model: str
    openai: OpenAI
    says: str


def _reference(folder: Path, checkpoint: Path) -> AbstractContextManager[RealGateway]:
    directory = build(checkpoint, folder / "store")
    serving = folder / "plan.json"
    serving.write_text(serving_plan(directory.manifest.fingerprint).to_json())
    return run_pair(BuiltEngine(directory.root, serving), folder)


def _encoder_decoder(folder: Path) -> AbstractContextManager[RealGateway]:
    return _reference(folder, texts.write("t5", folder / "checkpoint"))


def _own_processor(folder: Path) -> AbstractContextManager[RealGateway]:
    return _reference(folder, own_classes.write("aya_vision", folder / "checkpoint"))


def _tensorrt(folder: Path) -> AbstractContextManager[RealGateway]:
    """Run the real tritonserver with a stand-in for TensorRT-LLM's backend."""
    image = make_image(folder / "image", VERSIONS[-1])
    engine = spelling_engine(folder, VERSIONS[-1], tool_templates.LLAMA)
    return run_pair(engine.built, folder, program=image.program)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((_encoder_decoder, "an encoder reads the prompt"), id="encoder-decoder"),
        pytest.param((_own_processor, "the checkpoint's own processor"), id="own-processor"),
        pytest.param((_tensorrt, "backend Reference alone"), id="TensorRT"),
    ],
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Each in turn."""
    opened, says = request.param
    with (
        opened(tmp_path_factory.mktemp("unscored")) as pair,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=SECONDS) as openai,
    ):
        yield Served(pair.model, openai, says)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("max_tokens", [0, 1])
def test_both_are_refused(served: Served, *, stream: bool, max_tokens: int) -> None:
    """The message says why, and what to do."""
    with pytest.raises(BadRequestError) as refusal:
        served.openai.completions.create(
            model=served.model,
            prompt=TEXT,
            echo=True,
            logprobs=1,
            max_tokens=max_tokens,
            stream=stream,
        )
    assert (refusal.value.param, refusal.value.code) == ("logprobs", "unsupported_parameter")
    assert served.says in refusal.value.message
    assert "Leave one of them out" in refusal.value.message


def test_stated_scores_are_refused(served: Served) -> None:
    """`prompt_logprobs`, by its name."""
    with pytest.raises(BadRequestError) as refusal:
        served.openai.completions.create(
            model=served.model, prompt=TEXT, extra_body={"prompt_logprobs": 0}
        )
    assert (refusal.value.param, refusal.value.code) == ("prompt_logprobs", "unsupported_parameter")
    assert any(one in refusal.value.message for one in (served.says, "only by Reference"))
    assert "Leave it out" in refusal.value.message


def test_either_acts_alone(served: Served) -> None:
    """`echo` without scores, also of the prompt alone; scores of an answer without its prompt."""
    given = {"model": served.model, "prompt": TEXT, "temperature": 0}
    create = served.openai.completions.create
    answer = create(**given, max_tokens=3, logprobs=0).choices[0]
    assert answer.logprobs is not None
    assert answer.logprobs.token_logprobs
    assert create(**given, max_tokens=3, echo=True).choices[0].text == TEXT + answer.text
    alone = create(**given, max_tokens=0, echo=True)
    assert (alone.choices[0].text, alone.choices[0].finish_reason) == (TEXT, "length")
    assert alone.usage is not None
    assert alone.usage.completion_tokens == 0
    stream = create(**given, max_tokens=0, echo=True, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == TEXT
