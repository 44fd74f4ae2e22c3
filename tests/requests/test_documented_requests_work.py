"""Every example of docs/tasks/requests*.md runs as written and prints the text below it."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mm_runtime.gateway.warmup.evaluation import read_comparison
from support.build_plans import change_serving, serving_plan
from support.documented_requests import PAGES, USUAL, Example, all_examples, examples
from support.families.pipeline import build
from support.real_gateway import gateway_before
from support.served import Served, start_serving
from support.tiny_llava import BuiltEngine
from support.tiny_t5 import CHECKPOINT as TINY_T5

pytestmark = pytest.mark.triton

ELSEWHERE = {"qwen2-vl"}
"""Its examples are run where its server runs: test_families_answer_through_triton.py."""

Addresses = Mapping[str, str]


def _ids(served: str) -> list[object]:
    return [pytest.param(one, id=one.title) for one in examples(served)]


@pytest.fixture(scope="module")
def usual(
    served: Served, built_engine: BuiltEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Addresses]:
    """The folder's server with a gateway under the page's name for the model."""
    folder = tmp_path_factory.mktemp("usual")
    with _named(served, built_engine, USUAL, folder) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A server of the trained T5, and its gateway.

    The gateway is ready, so the server has answered as the checkpoint does.
    """
    folder = tmp_path_factory.mktemp("tiny-t5")
    directory = build(TINY_T5, folder / "store", evaluated=True)
    assert read_comparison(directory.root, directory.manifest) is not None
    plan = serving_plan(directory.manifest.fingerprint, bls_instances=1)
    engine = BuiltEngine(directory.root, folder / "serving.json")
    engine.serving.write_text(plan.to_json())
    with start_serving(engine.manifest, engine.serving) as server:
        server.wait_until_ready()
        with _named(server, engine, "tiny-t5", folder) as addresses:
            yield addresses


@contextmanager
def _named(server: Served, engine: BuiltEngine, model: str, folder: Path) -> Iterator[Addresses]:
    serving = folder / "named.json"
    shutil.copy(engine.serving, serving)
    change_serving(serving, model=model)
    with gateway_before(replace(engine, serving=serving), server.grpc_url, folder) as url:
        yield {
            "localhost:8000": f"127.0.0.1:{server.http}",
            "localhost:8001": server.grpc_url,
            "localhost:8080": url.removeprefix("http://"),
        }


def test_every_section_has_an_example() -> None:
    """A section without a runnable example would be a promise that no one keeps."""
    run = {USUAL, "tiny-t5", *ELSEWHERE}
    sections = sum(page.read_text().count("\n## ") for page in PAGES)
    assert sections == sum(one.served in run for one in all_examples())


@pytest.mark.parametrize("example", _ids(USUAL))
def test_example(usual: Addresses, example: Example) -> None:
    assert example.answer == example.run(usual)


@pytest.mark.slow
@pytest.mark.parametrize("example", _ids("tiny-t5"))
def test_text_to_text(tiny_t5: Addresses, example: Example) -> None:
    assert example.answer == example.run(tiny_t5)
