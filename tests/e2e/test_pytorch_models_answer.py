"""`kubectl apply` of a model for TensorRT-LLM on PyTorch: staged, rolled out, queried over OpenAI.

The image is the runtime's with the recorded `trtllm-serve` in it; the node plays one with a GPU.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import APIError, InternalServerError

from support.advertised_gpus import GPU, gpu_node
from support.eventually import eventually
from support.families.expected import noise_image
from support.families.images import write
from support.images import data_url, encode
from support.installed import RESOURCES, Installed, Space, model_space
from support.outside import kill_in_pod
from support.recorded_image import make_image
from support.service_clients import client_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

VERSION = "1.1.0"
READY_SECONDS = 500
MODEL = "m"


@pytest.fixture(name="space", scope="module")
def applied(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    folder = tmp_path_factory.mktemp("pytorch")
    _, image = make_image(installed, folder, VERSION)
    checkpoint = write("qwen2-vl", folder / "checkpoint")
    for path in checkpoint.rglob("*"):
        path.chmod(0o644)
    with gpu_node(installed.cluster, 1), model_space(installed, "pytorch-models") as space:
        space.upload(checkpoint, "qwen2-vl")
        model = space.model(
            MODEL,
            "qwen2-vl",
            engine={"backend": "PyTorch", "maxImagesPerRequest": 1, "maxSeqLen": 256},
            runtime={"image": image, "resources": RESOURCES},
        )
        # The recorded server's sentences are fixed: they are not the checkpoint's.
        model["spec"]["build"] |= {"trtllmVersion": VERSION, "image": image, "evaluation": "Off"}
        space.apply(model)
        space.wait_ready(MODEL, READY_SECONDS)
        yield space


def pods_of(space: Space, component: str) -> list[dict[str, Any]]:
    return list(space.get("pods", "-l", f"app.kubernetes.io/component={component}")["items"])


def requested(text: str, *images: bytes) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": data_url(one)}} for one in images
    ]
    content = [*parts, {"type": "text", "text": text}]
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 16}


def test_the_checkpoint_was_staged_without_a_gpu(space: Space) -> None:
    """The Job took none, the pod takes one, and its server is the plan's command."""
    staged = space.condition(MODEL, "EngineBuilt")
    (job,) = (pod["spec"]["containers"][0] for pod in pods_of(space, "build"))
    (pod,) = pods_of(space, "server")
    server = next(one for one in pod["spec"]["initContainers"] if one["name"] == "server")
    log = space.kubectl("logs", pod["metadata"]["name"], "-c", "server")
    assert staged.message == "the checkpoint is staged"
    assert GPU not in job["resources"].get("limits", {})
    assert server["resources"]["limits"][GPU] == "1"
    assert '[TRT-LLM] [I] options {"enable_iter_perf_stats": true' in log


def test_an_openai_client_gets_an_answer(space: Space) -> None:
    content = encode(noise_image(100, 61, seed=1))
    with client_of(space, MODEL) as client:
        text = client.chat.completions.create(**requested("what is it ?"))
        seen = client.chat.completions.create(**requested("what is it ?", content))
        stream = client.chat.completions.create(**requested("what is it ?", content), stream=True)
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text.choices[0].message.content == "A recorded answer about 0 images."
    assert seen.choices[0].message.content == "A recorded answer about 1 images."
    assert streamed == seen.choices[0].message.content
    assert text.usage
    assert seen.usage
    assert seen.usage.completion_tokens == 6
    # An image stands between two tokens of its own; 28 x 28 pixels are one feature.
    assert seen.usage.prompt_tokens - text.usage.prompt_tokens == 4 * 2 + 2


def test_a_dead_server_comes_back_in_its_pod(space: Space) -> None:
    """A request that was running is instructed to come again; the same pod answers soon."""
    (pod,) = pods_of(space, "server")
    with client_of(space, MODEL) as client:
        with pytest.raises(InternalServerError) as reported:
            client.chat.completions.create(**requested("order: die"))
        assert reported.value.status_code == 503
        assert reported.value.response.headers["retry-after"] == "1"

        def answers() -> bool:
            try:
                return bool(client.chat.completions.create(**requested("what is it ?")).choices)
            except APIError:
                return False

        eventually(answers)
        kill_in_pod(pod, "trtllm-serve")
        space.wait_ready(MODEL, 60)
        eventually(answers)
    (now,) = pods_of(space, "server")
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert [one["restartCount"] for one in now["status"]["initContainerStatuses"]] == [0]
