"""Forms of answers on each backend: they act there, or are refused by name, as the table says.

TensorRT: the real tritonserver with a stand-in backend. PyTorch: a recorded trtllm-serve. Those of
VLLM are in tests/vllm.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from mm_api.backends import PYTORCH, REFERENCE, TENSORRT
from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.pytorch.client import TrtllmServeDialect
from mm_runtime.gateway.api.parameters import PARAMETERS
from support import tool_templates
from support.gateways import MODEL, serve, toy_gateway
from support.model_configs import VERSIONS, planned
from support.native.engines import spelling_engine
from support.native.image import make_image
from support.real_gateway import run_pair
from support.recorded_server import recorded_server
from support.representatives import others_are_slow

pytestmark = [pytest.mark.triton, pytest.mark.timeout(900)]

SERVED = (REFERENCE.name, TENSORRT.name, PYTORCH.name)
SECONDS = 120
NO_BLANKS = {str(ord(blank)): -100 for blank in " \t\n\r"}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"const": 1}},
    "required": ["a"],
    "additionalProperties": False,
}
NAMED = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
TOOLS = [{"type": "function", "function": {"name": "rain", "parameters": SCHEMA}}]


@dataclass(frozen=True)
class Served:
    """A model of one backend, and the official client of its gateway."""

    model: str
    openai: OpenAI

    def query(self, **fields: Any) -> Any:
        answer = self.openai.chat.completions.create(
            model=self.model,
            messages=[{"role": "user", "content": "Will it rain?"}],
            extra_body={"max_tokens": 120, "temperature": 0, **fields},
        )
        return answer.choices[0]


@pytest.fixture(scope="module", params=others_are_slow(SERVED, REFERENCE.name, PYTORCH.name))
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, client: OpenAI
) -> Iterator[tuple[str, Served]]:
    if request.param == REFERENCE.name:
        yield REFERENCE.name, Served("tiny", client)
        return
    folder = tmp_path_factory.mktemp("backend")
    opened = {TENSORRT.name: _tensorrt, PYTORCH.name: _pytorch}[request.param]
    with (
        opened(folder) as (url, model),
        OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=SECONDS) as openai,
    ):
        yield request.param, Served(model, openai)


@contextmanager
def _tensorrt(folder: Path) -> Iterator[tuple[str, str]]:
    image = make_image(folder / "image", VERSIONS[-1])
    engine = spelling_engine(folder, VERSIONS[-1], tool_templates.LLAMA)
    with run_pair(engine.built, folder, program=image.program) as pair:
        yield pair.url, pair.model


@contextmanager
def _pytorch(folder: Path) -> Iterator[tuple[str, str]]:
    """Run a gateway of a toy model in a thread, before a server that has the plan's option."""
    plan = planned("qwen2-vl", {"backend": "PyTorch"}, version="1.2.1").serve
    assert plan
    options = {name: one for name, one in plan.options.items() if name.startswith("guided")}
    found: list[str] = []
    listening, over = threading.Event(), threading.Event()

    async def run(address: str) -> None:
        engine = OpenAiServerEngine(address, TrtllmServeDialect(MODEL), request_seconds=SECONDS)
        gateway = toy_gateway(
            folder / "toy-gateway", engine, template=tool_templates.LLAMA, trtllm_serve=plan
        )
        async with serve(gateway) as running:
            found.append(running.url)
            listening.set()
            await asyncio.to_thread(over.wait)
        await engine.close()

    with recorded_server(folder, "1.2.1", options) as server:
        thread = threading.Thread(target=lambda: asyncio.run(run(server.address)), daemon=True)
        thread.start()
        try:
            assert listening.wait(SECONDS)
            yield found[0], MODEL
        finally:
            over.set()
            thread.join(SECONDS)


def _says(text: str) -> Callable[[Any], bool]:
    return lambda choice: choice.message.content == text


def _is_object(choice: Any) -> bool:
    begun = "".join(choice.message.content.split())
    return begun[:4] == '{"a"' and '{"a":1}'.startswith(begun)


def _calls(choice: Any) -> bool:
    (call,) = choice.message.tool_calls
    return bool(call.function.name == "rain")


FORMS: list[tuple[str, Mapping[str, Any], Callable[[Any], bool]]] = [
    ("response_format", {"response_format": NAMED}, _is_object),
    ("structured_outputs", {"structured_outputs": {"regex": "no"}}, _says("no")),
    ("structured_outputs", {"structured_outputs": {"choice": ["dry"]}}, _says("dry")),
    ("tool_choice", {"tools": TOOLS, "tool_choice": "required", "logit_bias": NO_BLANKS}, _calls),
]


@pytest.mark.parametrize(
    ("name", "fields", "acts"), [pytest.param(*one, id=one[0]) for one in FORMS]
)
def test_forms(
    served: tuple[str, Served], name: str, fields: Mapping[str, Any], acts: Callable[[Any], bool]
) -> None:
    """As docs/reference/parameters.md says it of the backend."""
    backend, model = served
    # The toy model before the recorded server has four tokens, and no blanks.
    if backend == PYTORCH.name:
        fields = {field: value for field, value in fields.items() if field != "logit_bias"}
    if backend in PARAMETERS[name].acts:
        assert acts(model.query(**fields))
        return
    with pytest.raises(BadRequestError) as refusal:
        model.query(**fields)
    assert refusal.value.code == "unsupported_parameter"
    assert refusal.value.param in fields
