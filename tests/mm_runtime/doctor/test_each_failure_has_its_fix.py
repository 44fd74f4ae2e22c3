"""What a purpose needs against what an image holds: the failures, by name, each with a fix."""

from dataclasses import replace
from pathlib import Path

from mm_api import backends
from mm_runtime.doctor.checks import examine
from mm_runtime.doctor.found import Found, Interpreter
from mm_runtime.doctor.need import PURPOSES, Need
from mm_runtime.doctor.report import Outcome, sentence
from support.cases import cases

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
    gone = set(programs_or_packages.values())
    packages = {name: one for name, one in PYTHON.packages.items() if name not in gone}
    programs = {name: one for name, one in TRTLLM.programs.items() if name not in gone}
    return replace(TRTLLM, engine=replace(PYTHON, packages=packages), programs=programs)


@cases(
    "need found failed",
    {
        "complete": (TENSORRT, TRTLLM, set()),
        "pytorch": (Need(ALL, backends.PYTORCH), TRTLLM, set()),
        "reference": (Need(ALL, backends.REFERENCE, gpu=True), TRTLLM, set()),
        "inspections-need-nothing-of-it": (
            Need(frozenset({"inspect"}), backends.REFERENCE, gpu=True, onnx=True),
            replace(
                TRTLLM, engine=Interpreter("/none", problem="does not run"), server="", gpus=()
            ),
            set(),
        ),
        "no-triton": (TENSORRT, replace(TRTLLM, server=""), {"tritonserver"}),
        "no-backend": (TENSORRT, replace(TRTLLM, native_backend=""), {"backend"}),
        "no-scripts": (TENSORRT, replace(TRTLLM, scripts=None), {"scripts"}),
        "home": (TENSORRT, replace(TRTLLM, home_is_writable=False), {"home"}),
        "no-driver": (TENSORRT, replace(TRTLLM, driver_cuda=None), {"driver"}),
        "old-driver": (TENSORRT, replace(TRTLLM, driver_cuda=(12, 8)), {"driver"}),
        "no-gpu": (TENSORRT, replace(TRTLLM, gpus=()), {"gpu"}),
        "no-trtllm-build": (TENSORRT, without(a="trtllm-build"), {"trtllm-build"}),
        "no-mps-control": (TENSORRT, without(a="nvidia-cuda-mps-control"), {"mps"}),
        "no-setpriv": (TENSORRT, without(a="setpriv"), {"setpriv"}),
        "no-tensorrt": (
            TENSORRT,
            without(a="tensorrt", b="tensorrt_llm"),
            {"tensorrt", "tensorrt_llm"},
        ),
        "no-server": (Need(ALL, backends.PYTORCH), without(a="trtllm-serve"), {"trtllm-serve"}),
        "no-clients": (
            TENSORRT,
            replace(TRTLLM, own=replace(OWN, packages={})),
            {"httpx2", "huggingface_hub", "obstore"},
        ),
        "claims-need-no-clients": (
            replace(TENSORRT, addresses=("/mnt/source",)),
            replace(TRTLLM, own=replace(OWN, packages={})),
            set(),
        ),
        "old-python": (TENSORRT, replace(TRTLLM, own=replace(OWN, version=(3, 10))), {"python"}),
        "code-is-not-there": (
            TENSORRT,
            replace(TRTLLM, engine=replace(PYTHON, problem="cannot import the project's code")),
            {"engine-python"},
        ),
        "torch-of-a-cpu": (
            Need(ALL, backends.REFERENCE, gpu=True),
            replace(TRTLLM, engine=replace(PYTHON, torch_cuda="")),
            {"torch-cuda"},
        ),
        "no-onnx": (Need(ALL, backends.REFERENCE, onnx=True), TRTLLM, {"onnx", "onnxruntime"}),
    },
)
def test_what_fails_is_named(need: Need, found: Found, failed: set[str]) -> None:
    report = examine(need, found)

    assert {one.name for one in report.failures} == failed
    assert all(bool(one.fix) == (one.outcome is Outcome.FAIL) for one in report.findings)


def test_a_node_is_no_fault_of_the_image() -> None:
    report = examine(TENSORRT, replace(TRTLLM, gpus=(), driver_cuda=None, scripts=None))

    assert [one.name for one in report.image_failures] == ["scripts"]
    assert sentence(report.image_failures).startswith("scripts: (none) (TensorRT-LLM's folder")
    assert "3 of" in report.text().splitlines()[-1]
