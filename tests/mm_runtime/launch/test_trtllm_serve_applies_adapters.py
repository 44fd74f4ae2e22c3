"""Backend PyTorch: a pod whose model has LoRA adapters: supervisor, recorded server, gateway."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from openai import NotFoundError, OpenAI

from mm_api.contract import ExitCode
from mm_api.documents.serving_plan import ServingPlan
from support.adapted_gemma import FAMILY, NAMES, VERSION, adapted_site
from support.ports import free_ports
from support.real_gateway import gateway_of
from support.served import Served, start_serving
from support.trtllm_pods import tool_environment, with_free_port
from support.trtllm_tools.install import install

SECONDS = 60


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OpenAI, Served, ServingPlan]]:
    """A client of the gateway, the supervised server, and the plan of both."""
    folder = tmp_path_factory.mktemp("pod")
    site = adapted_site(folder)
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    assert site.planned.serving_plan
    plan = folder / "planned.json"
    plan.write_text(site.planned.serving_plan.to_json())
    serving = with_free_port(plan, folder)
    (front,) = free_ports(1)
    environment = tool_environment(install(folder / "tools", VERSION))
    with ExitStack() as stack:
        manifest = site.paths.manifest
        started = start_serving(
            manifest,
            serving,
            *("--gateway-port", str(front)),
            folder=folder,
            environment=environment,
        )
        served = stack.enter_context(started)
        documents = ("--manifest", str(manifest), "--serving", str(serving))
        url = stack.enter_context(gateway_of(documents, front, folder / "gateway.log"))
        client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=SECONDS)
        with client:
            yield client, served, ServingPlan.from_json(serving.read_bytes())


def answer(client: OpenAI, model: str) -> str:
    message = {"role": "user", "content": "What is it?"}
    found = client.chat.completions.create(model=model, messages=[message])  # type: ignore[list-item]
    return found.choices[0].message.content or ""


def test_the_options_of_adapters_are_loaded(pod: tuple[OpenAI, Served, ServingPlan]) -> None:
    """The server starts with the planned file, its null included."""
    _, served, plan = pod
    assert plan.trtllm_serve
    options = plan.trtllm_serve.options
    assert {"lora_config", "cuda_graph_config"} <= set(options)
    assert f"options {json.dumps(options, sort_keys=True)}" in served.log


def test_each_name_is_answered_by_its_adapter(pod: tuple[OpenAI, Served, ServingPlan]) -> None:
    """The server reads the files that the build staged, from the path that the gateway names."""
    client, _, _ = pod
    assert [one.id for one in client.models.list()] == [FAMILY, *NAMES]
    assert [answer(client, name) for name in (*NAMES, FAMILY)] == [
        *(f"A recorded answer by {name} about 0 images." for name in NAMES),
        "A recorded answer about 0 images.",
    ]
    with pytest.raises(NotFoundError):
        answer(client, "german")
