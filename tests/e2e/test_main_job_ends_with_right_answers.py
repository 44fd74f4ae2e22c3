"""What `make demo` does, on an entire cluster: from a claim with a checkpoint to right answers."""

import pytest

from mm_devcluster.demo import questions, walk
from support.clusters import kubectl, read
from support.installed import Installed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_every_answer_is_right(answers: list[questions.Answer]) -> None:
    found = [(answer.text, answer.streamed) for answer in answers]
    expected = [(answer.question.expected, answer.streamed) for answer in answers]
    assert found == expected
    assert {answer.streamed for answer in answers} == {True, False}


def test_answers_stream_in_pieces(answers: list[questions.Answer]) -> None:
    """Not each of them: tokens that are ready together are one piece."""
    pieces = [each.pieces for each in answers if each.streamed]
    assert sum(pieces) > len(pieces)


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
