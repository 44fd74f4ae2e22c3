"""`mm-runtime doctor` looks at the environment that it runs in."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildResult
from support.build_plans import build_plan
from support.documents import FACTS
from support.tied import tied


def run(*arguments: str, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        tied([sys.executable, "-m", "mm_runtime", *arguments]),
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def findings(text: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(text)["findings"]}


@pytest.mark.triton
def test_the_cpu_image_serves_the_reference_engine() -> None:
    code, text = run("doctor", "--backend", "Reference")

    assert (code, text.splitlines()[-1]) == (ExitCode.OK, "usable"), text


def test_what_is_missing_is_said_as_json() -> None:
    code, text = run("doctor", "--backend", "TensorRT", "--for", "build", "-o", "json")

    found = findings(text)
    assert code == ExitCode.PERMANENT
    assert [
        found[name]["outcome"] for name in ("tensorrt_llm", "scripts", "backend", "python")
    ] == ["fail", "fail", "not needed", "pass"]
    assert "runtime/Dockerfile.trtllm" in found["tensorrt_llm"]["fix"]


def test_an_interpreter_that_does_not_run_is_named() -> None:
    code, text = run("doctor", "--for", "build", "-o", "json", MM_ENGINE_PYTHON="/nowhere/python3")

    found = findings(text)["engine-python"]
    assert (code, found["outcome"]) == (ExitCode.PERMANENT, "fail")
    assert "/nowhere/python3" in found["found"]


def test_a_build_ends_before_its_first_step(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(build_plan(FACTS).to_json())
    store = tmp_path / "store"
    log = tmp_path / "termination-log"

    code, _ = run(
        *("build", "--plan", str(plan), "--source", str(tmp_path), "--store", str(store)),
        *("--termination-log", str(log)),
        MM_ENGINE_PYTHON="/nowhere/python3",
    )

    failure = BuildResult.from_json(log.read_bytes()).failure
    assert failure is not None
    assert (code, failure.reason, failure.step) == (3, "ImageNotUsable", "doctor")
    assert failure.retryable is False
    assert "/nowhere/python3" in failure.message
    assert not store.exists()


@pytest.mark.root
def test_a_user_without_an_entry_gets_a_name() -> None:
    """NVIDIA's images do not know user 65532, and torch 2.8 to 2.11 fails without a name."""
    unnamed = {k: v for k, v in os.environ.items() if k not in {"USER", "LOGNAME", "USERNAME"}}
    as_user = ["setpriv", "--reuid=65532", "--clear-groups", sys.executable]
    if subprocess.run([*as_user, "-c", ""], timeout=60, check=False, stderr=-1).returncode:
        pytest.skip("another user cannot run this interpreter: it is in a folder of root's")

    done = subprocess.run(
        [*as_user, "-m", "mm_runtime", "doctor", "--for", "inspect", "-o", "json"],
        env={**unnamed, "HOME": "/tmp"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert findings(done.stdout)["home"]["found"] == "/tmp (user 65532, nonroot)", done.stderr


def test_a_package_for_one_cuda_is_the_package(tmp_path: Path) -> None:
    """`pip install tensorrt-cu12` is TensorRT: seen on a GPU as an image without it."""
    (tmp_path / "tensorrt_cu12-10.6.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: tensorrt-cu12\nVersion: 10.6.0\n"
    (tmp_path / "tensorrt_cu12-10.6.0.dist-info" / "METADATA").write_text(metadata)

    _, text = run(
        *("doctor", "--backend", "TensorRT", "--for", "build", "-o", "json"),
        PYTHONPATH=str(tmp_path),
    )

    assert findings(text)["tensorrt"]["found"] == "10.6.0"
