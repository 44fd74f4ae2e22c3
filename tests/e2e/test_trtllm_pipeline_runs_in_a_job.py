"""The pipeline for TensorRT-LLM runs in a real Job, from an image with the recorded tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.build_result import BuildResult
from mm_devcluster.images.sources import USER
from support.eventually import eventually
from support.installed import CLAIM, RESOURCES, Installed, Space, model_space
from support.outside import kill_container
from support.recorded_image import make_image
from support.tiny_llava import CHECKPOINT
from support.trtllm_sites import trtllm_site

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

JOB_SECONDS = 240


def job(name: str, image: str, argv: list[str]) -> dict[str, Any]:
    """Describe a Job that sees the claim and the plan, as the operator's build Jobs do."""
    container = {
        "name": "build",
        "image": image,
        "imagePullPolicy": "Never",
        "command": argv,
        "resources": RESOURCES,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "claim", "mountPath": "/mnt/claim"},
            {"name": "plan", "mountPath": "/mnt/plan"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "claim", "persistentVolumeClaim": {"claimName": CLAIM}},
            {"name": "plan", "configMap": {"name": "plan"}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 2, "template": {"spec": pod}},
    }


def apply(space: Space, document: dict[str, Any]) -> None:
    document["metadata"]["namespace"] = space.name
    space.apply(document)


def pods(space: Space, name: str) -> list[dict[str, Any]]:
    items = space.get("pods", "-l", f"job-name={name}").get("items", [])
    return sorted(items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def ended(space: Space, name: str) -> dict[str, Any]:
    """Wait for a Job's success and return its last pod."""

    def succeeded() -> bool:
        return bool(space.get("job", name).get("status", {}).get("succeeded"))

    done = eventually(succeeded, seconds=JOB_SECONDS, pause_seconds=1)
    assert done, space.kubectl("logs", f"job/{name}", "--tail=40", check=False)
    return pods(space, name)[-1]


def log_of(space: Space, pod: dict[str, Any]) -> str:
    return space.kubectl("logs", pod["metadata"]["name"], check=False)


def test_a_killed_build_job_continues(installed: Installed, tmp_path: Path) -> None:
    """A container killed inside an engine's build; the next pod continues there and finishes.

    What it ran are the plan's commands, argument by argument, and `store verify` finds it complete.
    """
    tools, image = make_image(installed, tmp_path)
    site = trtllm_site(tmp_path, tools, "llava", source=CHECKPOINT)
    with model_space(installed, "recorded-trtllm") as space:
        space.upload(Path(site.source), "llava")
        plan = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "plan"},
            "data": {"plan.json": site.plan.to_json()},
        }
        apply(space, plan)
        where = ["--source", "/mnt/claim/llava", "--store", "/mnt/claim/store"]
        argv = ["mm-runtime", "build", "--plan", "/mnt/plan/plan.json", *where]
        apply(space, job("build", image, [*argv, "--termination-log", "/dev/termination-log"]))

        def in_the_middle() -> dict[str, Any] | None:
            found = pods(space, "build")
            return found[0] if found and "[build-llm] $" in log_of(space, found[0]) else None

        first = eventually(in_the_middle, seconds=JOB_SECONDS)
        assert first, "the engine's build never began"
        kill_container(first, "mm-runtime")

        last = ended(space, "build")
        state = last["status"]["containerStatuses"][0]["state"]["terminated"]
        result = BuildResult.from_json(state["message"])
        said = log_of(space, last)
        assert result.failure is None
        assert last["metadata"]["name"] != first["metadata"]["name"]
        assert all(f"{step}: finished before" in said for step in ("fetch", "convert"))
        assert "build-llm: finished before" not in said

        engine = f"/mnt/claim/store/engines/{site.plan.fingerprint}"
        apply(space, job("journal", image, ["cat", f"{engine}/build/journal.json"]))
        entries = json.loads(log_of(space, ended(space, "journal")))["entries"]
        ran = [entry["argv"] for entry in entries if entry["argv"]]
        steps = site.plan.trtllm
        assert steps is not None
        assert steps.tokenizer_info is not None
        planned = [steps.tokenizer_info, steps.convert, *steps.engines]
        assert [command.argv for command in planned] == ran

        verify = ["mm-runtime", "store", "verify", "--store", "/mnt/claim/store"]
        apply(space, job("verify", image, verify))
        ended(space, "verify")
