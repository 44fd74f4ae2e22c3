"""Each row of the table of vLLM's requests, against a real gateway and its Triton."""

from collections.abc import Iterator

import pytest
from openai import OpenAI

from support.build_plans import serving_plan
from support.families import texts
from support.families.pipeline import build
from support.real_gateway import run_pair
from support.tiny_llava import BuiltEngine
from support.vllm_requests import OF_AUDIO, ROWS
from support.vllm_requests.sent import check
from support.vllm_requests.table import Row

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]


def _named(row: Row) -> object:
    return pytest.param(row, id=f"{row.path}-{row.name}")


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """The official client on a real gateway, whose one model is a Whisper."""
    folder = tmp_path_factory.mktemp("listener")
    directory = build(texts.write("whisper", folder / "checkpoint"), folder / "store")
    serving = folder / "plan.json"
    serving.write_text(serving_plan(directory.manifest.fingerprint).to_json())
    with (
        run_pair(BuiltEngine(directory.root, serving), folder, request_timeout_seconds=60) as pair,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        yield openai


@pytest.mark.slow
@pytest.mark.parametrize("row", [_named(row) for row in ROWS if row not in OF_AUDIO])
def test_rows(client: OpenAI, row: Row) -> None:
    """An answer has the row's property; a refusal is OpenAI's error with the row's parameter."""
    check(client, row)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # by OpenAI, for its own model
@pytest.mark.parametrize("row", [*map(_named, OF_AUDIO)])
def test_rows_of_audio(listener: OpenAI, row: Row) -> None:
    check(listener, row)


def test_rows_have_names_of_their_own() -> None:
    names = [(row.path, row.name) for row in ROWS]
    assert len(names) == len(set(names))
