"""What `make demo` does, on an entire cluster: from a claim with a checkpoint to right answers."""

from typing import Any

import pytest
from openai import OpenAI

from mm_devcluster.demo import questions, walk
from support.clusters import kubectl, read
from support.installed import Installed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_every_answer_is_right(answers: list[questions.Answer]) -> None:
    found = [(answer.text, answer.streamed) for answer in answers]
    expected = [(answer.question.expected, answer.streamed) for answer in answers]
    assert found == expected
    assert {answer.streamed for answer in answers} == {True, False}


def test_answers_stream_in_pieces(installed: Installed, answers: list[questions.Answer]) -> None:
    """Short answers may be one: tokens that are ready together are."""
    service = installed.target.document("service", "tiny-llava", "--namespace", "demo")
    messages: Any = [{"role": "user", "content": questions.content_of(answers[0].question)}]
    url = f"http://{service['spec']['clusterIP']}/v1"
    with OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as client:
        chunks = client.chat.completions.create(
            model="tiny-llava",
            messages=messages,
            max_tokens=40,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        pieces = [one for one in chunks if one.choices and one.choices[0].delta.content]
    assert len(pieces) > 1


def test_the_model_reports_its_state(installed: Installed, answers: list[questions.Answer]) -> None:
    """Conditions of a served model say so, and every Event and column has words."""
    assert answers
    model = installed.target.document("mmm", "tiny-llava", "--namespace", "demo")
    conditions = walk.conditions_of(model)
    statuses = {name: condition.status for name, condition in conditions.items()}
    assert statuses == {
        "Ready": "True",
        "Available": "True",
        "Planned": "True",
        "EngineBuilt": "True",
        "RollingOut": "False",
        "ScalingActive": "False",
        "Degraded": "False",
    }
    columns = kubectl(installed.cluster, "get", "mmm", "tiny-llava", "--namespace", "demo")
    assert columns.split()[:6] == ["NAME", "READY", "REASON", "BACKEND", "REPLICAS", "URL"]


def test_pods_run_without_rights_on_a_read_only_root(
    installed: Installed, answers: list[questions.Answer]
) -> None:
    """Every container that we made has a read-only root and no rights, in both namespaces."""
    assert answers
    found = []
    for namespace in ("multimodal-system", "demo"):
        pods = read(installed.cluster, "pods", "--namespace", namespace)
        for pod in pods["items"]:
            for container in pod["spec"]["containers"]:
                context = container["securityContext"]
                found.append((context["readOnlyRootFilesystem"], context["capabilities"]["drop"]))
    assert found
    assert all(each == (True, ["ALL"]) for each in found)
