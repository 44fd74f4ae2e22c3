"""An operator that is killed in any stage leaves nothing that its successor cannot finish."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.absent_kubelet import built, get, inspected, serving, wait_for_pod
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

pytestmark = pytest.mark.cluster


def job_exists(api: Api, prefix: str) -> bool:
    return any(name.startswith(prefix) for name in api.names("jobs"))


STAGES = [
    pytest.param(
        lambda api: job_exists(api, "llava-inspect"), 0, id="inspecting", marks=pytest.mark.slow
    ),
    pytest.param(lambda api: job_exists(api, "engine-"), 1, id="building"),
    pytest.param(lambda api: api.names("deployments"), 2, id="serving", marks=pytest.mark.slow),
]

PLAYED: tuple[Callable[[Api], object], ...] = (
    lambda api: inspected(api, "llava"),
    built,
    lambda api: serving(api, "llava"),
)


@pytest.mark.parametrize(
    "while_down",
    [
        pytest.param(False, id="before-it-ends", marks=pytest.mark.slow),
        pytest.param(True, id="after-it-ended"),
    ],
)
@pytest.mark.parametrize(("reached", "played"), STAGES)
def test_the_successor_finishes(
    api: Api, tmp_path: Path, reached: Callable[[Api], object], played: int, *, while_down: bool
) -> None:
    rest = list(PLAYED)
    with running_operator(api.cluster, tmp_path, api.namespace, lease="first") as first:
        api.apply(document(name="llava"))
        for step in rest[:played]:
            step(api)
        eventually(lambda: reached(api))
        first.kill()
    # Its leader Lease would hold the namespace until it counts as silent.
    api.kubectl("delete", "lease", "first", "--ignore-not-found")
    builds = wait_for_build(api) if played == 1 else ""
    rest = rest[played:]
    if while_down:
        rest.pop(0)(api)
    with running_operator(api.cluster, tmp_path, api.namespace, lease="second"):
        for step in rest:
            step(api)

        api.reaches("llava", "Ready", "True")
        attempts = get(api, "mmm", "llava")["status"]["build"].get("attempts", 1)
        jobs = api.read("jobs")["items"]
        assert attempts == 1
        assert {job["metadata"]["uid"] for job in jobs if "engine" in job["metadata"]["name"]} <= {
            builds or job_uid(jobs)
        }


def wait_for_build(api: Api) -> str:
    pod = wait_for_pod(api, "app.kubernetes.io/component=build")
    return str(pod["metadata"]["ownerReferences"][0]["uid"])


def job_uid(jobs: list[dict[str, dict[str, str]]]) -> str:
    """Return the uid of the only build Job; empty when it went after its result was recorded."""
    found = [job["metadata"]["uid"] for job in jobs if "engine" in job["metadata"]["name"]]
    assert len(found) <= 1
    return "".join(found)
