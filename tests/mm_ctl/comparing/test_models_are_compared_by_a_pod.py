"""`mmctl compare` against a real API server: its pod, its verdict, and what it records.

No kubelet runs: the test writes how the pod ended.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_api import labels
from mm_api.documents.evaluation import EvaluationReport, FirstDifference, ReferenceFigures
from mm_ctl.commands.compare import as_page, obstacle
from mm_ctl.comparing.pod import compare_pod
from mm_devcluster.cluster import ClusterInfo
from support.absent_kubelet import end_pod, wait_for_pod
from support.cases import cases
from support.clusters import kubectl, namespace
from support.definition import install_definition
from support.model_documents import document
from support.model_namespace import Api
from support.staged import children, inspected

URL = "http://llava.demo.svc/v1"
FINGERPRINT = "a" * 64


def deployment(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    return children(inspected(changes, built=True))["Deployment/server"]


def set_status(api: Api, *, ready: str = "True", rolls: str = "False") -> None:
    usual = {"reason": "A", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    states = {"Available": ready, "RollingOut": rolls}
    conditions = [{"type": kind, "status": status, **usual} for kind, status in states.items()]
    status = {"conditions": conditions, "url": URL, "plan": {"fingerprint": FINGERPRINT}}
    body = json.dumps({"status": status})
    api.kubectl(
        *("patch", "multimodalmodel", "llava", "--subresource=status", "--type=merge", "-p", body)
    )


@contextmanager
def comparing(api: Api, *more: str, config: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    command = [str(Path(sys.executable).with_name("mmctl")), "compare", "llava", "--reference"]
    command += ["-n", api.namespace, "--kubeconfig", str(config or api.cluster.kubeconfig)]
    with subprocess.Popen(
        [*command, "--timeout", "60s", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def outcome(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


AGREES = EvaluationReport(
    fingerprint=FINGERPRINT,
    prompts=20,
    tokens=140,
    agreed=139,
    near_ties=1,
    failed_prompts=0,
    log_prob_distance=0.0123,
    reference=ReferenceFigures(
        dtype="float32", bound=0.02, mean_log_prob_distance=0.001, first_differing_token=7
    ),
)
DIFFERS = AGREES.model_copy(
    update={
        "failed_prompts": 3,
        "first_difference": FirstDifference(
            prompt="What?", token=1, expected="a", answered="b", distance=3.0, bound=0.02
        ),
    }
)
OTHER = AGREES.model_copy(update={"fingerprint": "b" * 64})
OURS = f"{labels.APP_MANAGED_BY}=mmctl"
GATEWAY = {"authSecretRef": {"name": "tokens", "key": "keys"}}


def test_the_pod_is_the_models_own_without_a_server() -> None:
    """Image, engine, serving plan and tokens; no label by which a Service would find it."""
    served = deployment({"gateway": GATEWAY, "runtime": {"nodeSelector": {"zone": "a"}}})
    pod = compare_pod(served, URL, memory="3Gi", seconds=60)
    spec, (own,) = pod["spec"], pod["spec"]["containers"]
    template = served["spec"]["template"]
    gateway = next(one for one in template["spec"]["containers"] if one["name"] == "gateway")

    assert own["image"] == gateway["image"]
    assert own["args"][:3] == ["compare", "--url", URL]
    for flag in ("--manifest", "--serving", "--auth-token-file"):
        at = gateway["args"].index(flag)
        assert own["args"][own["args"].index(flag) + 1] == gateway["args"][at + 1]
    assert {one["name"] for one in own["volumeMounts"]} <= {one["name"] for one in spec["volumes"]}
    assert own["resources"]["limits"] == {"memory": "3Gi"}
    assert "nvidia.com/gpu" not in json.dumps(pod)
    assert spec["nodeSelector"] == {"zone": "a"}
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 60)
    assert spec["initContainers"] == []
    selector = served["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= pod["metadata"]["labels"].items()


def test_an_engine_in_a_bucket_is_pulled_first() -> None:
    bucket = {"build": {"store": {"s3": {"bucket": "engines"}}}}
    pod = compare_pod(deployment(bucket), URL, memory="3Gi", seconds=60)
    assert [one["name"] for one in pod["spec"]["initContainers"]] == ["pull"]


def test_pages_have_a_verdict_and_figures() -> None:
    page = as_page("demo/llava", AGREES)
    assert page.splitlines()[0] == ("demo/llava agrees with its checkpoint (transformers, float32)")
    for words in (
        "20 of 20 agree, 1 part where two tokens are nearly tied",
        "139 of 140 compared are equal",
        "token 7 of an answer",
        "mean 0.00100, largest 0.012 standard deviations",
        "0.02 of them",
    ):
        assert words in page
    figures = ReferenceFigures(dtype="float32", bound=0.3)
    other = DIFFERS.model_copy(update={"reference": figures, "log_prob_distance": None})
    page = as_page("demo/t5", other)
    assert "demo/t5 differs from its checkpoint" in page
    assert "the server returns none" in page
    assert "3 of 20 prompts differ" in page


def test_engines_without_their_checkpoint_are_refused() -> None:
    why, code = obstacle(document({"engine": {"backend": "TensorRT"}})) or ("", 0)
    assert code == 1
    assert "backend TensorRT holds no checkpoint: its pods compare it" in why


@pytest.fixture(scope="module")
def api(control_plane: ClusterInfo) -> Iterator[Api]:
    install_definition(control_plane)
    with namespace(control_plane, f"compared-{uuid4().hex[:8]}") as name:
        there = Api(control_plane, name)
        said = there.apply(document(name="llava"))
        assert "created" in said, said
        live = deployment()
        metadata = {"name": "llava", "labels": live["metadata"]["labels"]}
        said = there.apply({**live, "metadata": metadata, "spec": {**live["spec"], "replicas": 0}})
        assert "created" in said, said
        yield there


def annotation(api: Api) -> str:
    model = api.read("multimodalmodel", "llava")
    found = (model["metadata"].get("annotations") or {}).get(labels.COMPARISON, "")
    return str(found)


@pytest.mark.cluster
@cases("report code", {"agrees": (AGREES, 0), "differs": (DIFFERS, 5)})
def test_a_report_is_printed_and_recorded(api: Api, report: EvaluationReport, code: int) -> None:
    set_status(api)
    with comparing(api) as process:
        end_pod(api, wait_for_pod(api, OURS), message=report.to_json())
        found, output, errors = outcome(process)
    assert found == code, errors
    assert output.startswith(f"{api.namespace}/llava ")
    assert EvaluationReport.from_json(annotation(api)) == report
    assert api.names("pods", "-l", OURS) == []


@pytest.mark.cluster
def test_what_the_scheduler_says_is_printed(api: Api) -> None:
    set_status(api)
    short = "0/3 nodes are available: 3 Insufficient memory."
    unscheduled = {"type": "PodScheduled", "status": "False", "message": short}
    status = json.dumps({"status": {"conditions": [unscheduled]}})
    with comparing(api) as process:
        pod = wait_for_pod(api, OURS)
        name = pod["metadata"]["name"]
        api.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", status)
        assert process.stderr is not None
        assert any(short in line for line in process.stderr)
        end_pod(api, pod, message="no report", exit_code=3)
        outcome(process)


@pytest.mark.cluster
@cases(
    "message ending words",
    {
        "failed": ("no such engine", {"exit_code": 3}, "failed: no such engine"),
        "memory": ("", {"exit_code": 137, "reason": "OOMKilled"}, "more memory than --memory"),
        "another-engine": (OTHER.to_json(), {}, "not recorded: another engine is planned now"),
    },
)
def test_what_fails_records_nothing(
    api: Api, message: str, ending: dict[str, Any], words: str
) -> None:
    set_status(api)
    before = annotation(api)
    with comparing(api) as process:
        end_pod(api, wait_for_pod(api, OURS), message=message, **ending)
        code, _, errors = outcome(process)
    assert code == 1
    assert words in errors
    assert annotation(api) == before
    assert api.names("pods", "-l", OURS) == []


@pytest.mark.cluster
@cases(
    "status options code words",
    {
        "not-available": ({"ready": "False"}, [], 4, "it does not answer yet"),
        "rollout": ({"rolls": "True"}, [], 4, "a rollout is under way"),
        "timeout": ({}, ["--timeout", "soon"], 2, "--timeout"),
        "memory": ({}, ["--memory", "much"], 2, "--memory"),
        "no-memory": ({}, ["--memory", "0"], 2, "above zero"),
    },
)
def test_what_cannot_be_compared_gets_no_pod(
    api: Api, status: dict[str, str], options: list[str], code: int, words: str
) -> None:
    set_status(api, **status)
    with comparing(api, *options) as process:
        found, _, errors = outcome(process)
    assert (found, words in errors) == (code, True), errors


@pytest.mark.cluster
def test_a_user_without_rights_reads_which(api: Api, tmp_path: Path) -> None:
    set_status(api)
    api.kubectl("create", "serviceaccount", "reader")
    rights = ["--verb=get", "--resource=multimodalmodels,deployments.apps"]
    api.kubectl("create", "role", "reader", *rights)
    who = f"--serviceaccount={api.namespace}:reader"
    api.kubectl("create", "rolebinding", "reader", "--role=reader", who)
    token = api.kubectl("create", "token", "reader").strip()
    config = tmp_path / "config"
    config.write_bytes(api.cluster.kubeconfig.read_bytes())
    context = kubectl(api.cluster, "config", "current-context").strip()
    for words in (
        ["set-credentials", "reader", f"--token={token}"],
        ["set-context", context, "--user=reader"],
    ):
        kubectl(replace(api.cluster, kubeconfig=config), "config", *words)
    with comparing(api, config=config) as process:
        code, _, errors = outcome(process)
    assert code == 1
    assert 'cannot create resource "pods"' in errors
