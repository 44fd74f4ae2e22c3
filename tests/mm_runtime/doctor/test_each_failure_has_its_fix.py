"""What a purpose needs against what an image holds: the failures, by name, each with a fix."""

from dataclasses import replace
from pathlib import Path

import pytest

from mm_api import backends
from mm_runtime.doctor.checks import examine
from mm_runtime.doctor.found import Found, Interpreter
from mm_runtime.doctor.need import PURPOSES, Need
from mm_runtime.doctor.report import Outcome, sentence

PYTHON = Interpreter(
    "/usr/bin/python3",
    (3, 12),
    dict.fromkeys(("torch", "transformers", "tensorrt", "tensorrt_llm"), "1"),
    torch_cuda="13.0",
)
OWN = Interpreter(
    "/venv/bin/python3", (3, 12), dict.fromkeys(("httpx2", "huggingface_hub", "obstore"), "1")
)
TRTLLM = Found(
    own=OWN,
    engine=PYTHON,
    programs=dict.fromkeys(
        ("nvidia-cuda-mps-control", "setpriv", "trtllm-build", "trtllm-serve"), "/usr/bin/x"
    ),
    user="nonroot",
    user_id=65532,
    home="/tmp",
    home_is_writable=True,
    server="/opt/tritonserver/bin/tritonserver",
    native_backend="/opt/tritonserver/backends/tensorrtllm",
    scripts=Path("/app"),
    driver_cuda=(13, 0),
    gpus=("NVIDIA H100 80GB HBM3",),
)
"""An image of runtime/Dockerfile.trtllm, on a node with a GPU."""

ALL = frozenset(PURPOSES)
TENSORRT = Need(ALL, backends.TENSORRT, mps=True, addresses=("hf://a/b", "s3://c/d"))


def without(**programs_or_packages: str) -> Found:
    """Return the image without some programs and packages of the engine's interpreter."""
    gone = set(programs_or_packages.values())
    packages = {name: one for name, one in PYTHON.packages.items() if name not in gone}
    programs = {name: one for name, one in TRTLLM.programs.items() if name not in gone}
    return replace(TRTLLM, engine=replace(PYTHON, packages=packages), programs=programs)


@pytest.mark.parametrize(
    ("need", "found", "failed"),
    [
        pytest.param(TENSORRT, TRTLLM, set(), id="complete"),
        pytest.param(Need(ALL, backends.PYTORCH), TRTLLM, set(), id="pytorch"),
        pytest.param(Need(ALL, backends.REFERENCE, gpu=True), TRTLLM, set(), id="reference"),
        pytest.param(
            Need(frozenset({"inspect"}), backends.REFERENCE, gpu=True, onnx=True),
            replace(
                TRTLLM, engine=Interpreter("/none", problem="does not run"), server="", gpus=()
            ),
            set(),
            id="inspections-need-nothing-of-it",
        ),
        pytest.param(TENSORRT, replace(TRTLLM, server=""), {"tritonserver"}, id="no-triton"),
        pytest.param(TENSORRT, replace(TRTLLM, native_backend=""), {"backend"}, id="no-backend"),
        pytest.param(TENSORRT, replace(TRTLLM, scripts=None), {"scripts"}, id="no-scripts"),
        pytest.param(TENSORRT, replace(TRTLLM, home_is_writable=False), {"home"}, id="home"),
        pytest.param(TENSORRT, replace(TRTLLM, driver_cuda=None), {"driver"}, id="no-driver"),
        pytest.param(TENSORRT, replace(TRTLLM, driver_cuda=(12, 8)), {"driver"}, id="old-driver"),
        pytest.param(TENSORRT, replace(TRTLLM, gpus=()), {"gpu"}, id="no-gpu"),
        pytest.param(TENSORRT, without(a="trtllm-build"), {"trtllm-build"}, id="no-trtllm-build"),
        pytest.param(TENSORRT, without(a="nvidia-cuda-mps-control"), {"mps"}, id="no-mps-control"),
        pytest.param(TENSORRT, without(a="setpriv"), {"setpriv"}, id="no-setpriv"),
        pytest.param(
            TENSORRT,
            without(a="tensorrt", b="tensorrt_llm"),
            {"tensorrt", "tensorrt_llm"},
            id="no-tensorrt",
        ),
        pytest.param(
            Need(ALL, backends.PYTORCH), without(a="trtllm-serve"), {"trtllm-serve"}, id="no-server"
        ),
        pytest.param(
            TENSORRT,
            replace(TRTLLM, own=replace(OWN, packages={})),
            {"httpx2", "huggingface_hub", "obstore"},
            id="no-clients",
        ),
        pytest.param(
            replace(TENSORRT, addresses=("/mnt/source",)),
            replace(TRTLLM, own=replace(OWN, packages={})),
            set(),
            id="claims-need-no-clients",
        ),
        pytest.param(
            TENSORRT,
            replace(TRTLLM, own=replace(OWN, version=(3, 10))),
            {"python"},
            id="old-python",
        ),
        pytest.param(
            TENSORRT,
            replace(TRTLLM, engine=replace(PYTHON, problem="cannot import the project's code")),
            {"engine-python"},
            id="code-is-not-there",
        ),
        pytest.param(
            Need(ALL, backends.REFERENCE, gpu=True),
            replace(TRTLLM, engine=replace(PYTHON, torch_cuda="")),
            {"torch-cuda"},
            id="torch-of-a-cpu",
        ),
        pytest.param(
            Need(ALL, backends.REFERENCE, onnx=True), TRTLLM, {"onnx", "onnxruntime"}, id="no-onnx"
        ),
    ],
)
def test_what_fails_is_named(need: Need, found: Found, failed: set[str]) -> None:
    """Nothing else fails, every failure has a fix, and nothing that passes has one."""
    report = examine(need, found)

    assert {one.name for one in report.failures} == failed
    assert all(bool(one.fix) == (one.outcome is Outcome.FAIL) for one in report.findings)


def test_a_node_is_no_fault_of_the_image() -> None:
    """A Job on a node without a GPU is not reported that its image is wrong."""
    report = examine(TENSORRT, replace(TRTLLM, gpus=(), driver_cuda=None, scripts=None))

    assert [one.name for one in report.image_failures] == ["scripts"]
    assert sentence(report.image_failures).startswith("scripts: (none) (TensorRT-LLM's folder")
    assert "3 of" in report.text().splitlines()[-1]
