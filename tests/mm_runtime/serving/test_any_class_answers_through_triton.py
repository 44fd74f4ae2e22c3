"""The real server and gateway with classes that have no record: answers are transformers' own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from openai import BadRequestError, OpenAI

from support.build_plans import serving_plan
from support.ensemble import Ensemble
from support.families.expected import ANSWER, noise_image
from support.families.own_classes import write
from support.families.pipeline import Pipeline, build
from support.families.served import image_part
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.slow, pytest.mark.triton, pytest.mark.timeout(600)]

QUESTION = "what is in the image ?"


@dataclass(frozen=True)
class Served:
    """A server and a gateway, and the same engine in this process."""

    pair: RealGateway
    openai: OpenAI
    ensemble: Ensemble
    pipeline: Pipeline

    def chat(self, images: list[Any], **options: Any) -> Any:
        content = [*map(image_part, images), {"type": "text", "text": QUESTION}]
        return self.openai.chat.completions.create(
            model=self.pair.model,
            messages=[{"role": "user", "content": content}],
            temperature=0,
            max_tokens=ANSWER,
            **options,
        )

    def expected(self, image: Any) -> str:
        ids = self.pipeline.query(QUESTION, IMAGE_BYTES=np.asarray(image)[None, None])
        text: str = self.pipeline.preprocessor.codec.decode(ids)
        return text


@pytest.fixture(scope="module", params=["aya_vision", "paligemma"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("class")
    directory = build(write(request.param, folder / "checkpoint"), folder / "store")
    serving = folder / "plan.json"
    plan = serving_plan(directory.manifest.fingerprint, bls_instances=1)
    serving.write_text(plan.to_json())
    pipeline = Pipeline.load(directory)
    with (
        run_pair(BuiltEngine(directory.root, serving), folder) as pair,
        Ensemble(pair.triton_grpc) as ensemble,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        yield Served(pair, openai, ensemble, pipeline)
    pipeline.loaded.engine.stop()


@pytest.mark.parametrize("size", [(100, 61), (37, 150)], ids=str)
def test_chat(served: Served, size: tuple[int, int]) -> None:
    image = noise_image(*size, seed=1)
    expected = served.expected(image)

    assert served.chat([image]).choices[0].message.content == expected
    streamed = served.chat([image], stream=True)
    assert "".join(one.choices[0].delta.content or "" for one in streamed) == expected


def test_clients_of_triton(served: Served) -> None:
    image = noise_image(60, 60, seed=2)
    pixels = np.asarray(image)[None, None]
    expected = served.expected(image)
    requested = {"image_bytes_input": pixels, "max_tokens": ANSWER}

    assert served.ensemble.query(QUESTION, **requested).text == expected
    with Ensemble(served.pair.triton_grpc, "tensorrt_llm_bls") as chain:
        assert chain.query(QUESTION, **requested).text == expected


def test_details_are_the_processors(served: Served) -> None:
    part = image_part(noise_image(60, 60, seed=2))
    part["image_url"]["detail"] = "low"  # type: ignore[index]

    with pytest.raises(BadRequestError, match="expected `auto`"):
        served.openai.chat.completions.create(
            model=served.pair.model,
            messages=[{"role": "user", "content": [part]}],  # type: ignore[list-item]
        )
