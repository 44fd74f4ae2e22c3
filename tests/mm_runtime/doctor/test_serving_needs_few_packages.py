"""What runs beside TensorRT-LLM uses its image's packages; what answers requests, its own."""

import subprocess
import sys

import pytest

from support.tied import tied

ABSENT = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""

CLIENTS = ("av", "httpx2", "huggingface_hub", "obstore")
GATEWAYS = (
    "httpx",
    "multipart",
    "prometheus_client",
    "psutil",
    "pytriton",
    "starlette",
    "uvicorn",
    "uvloop",
)
ENGINES = (
    *("onnx", "onnxruntime", "onnxscript", "peft"),
    *("safetensors", "torch", "torchvision", "transformers"),
)

GATEWAY = "import mm_runtime.gateway.main, mm_runtime.gateway.wiring"
SUPERVISOR = "import mm_runtime.launch.serve, mm_runtime.launch.tritonserver"
TRTLLM_SERVE = "import mm_runtime.backends.pytorch.server, mm_runtime.backends.pytorch.client"
FETCH = "from mm_runtime.engine_build.commands import fetch, fetch_adapters"
BUILD = "import mm_runtime.engine_build.run, mm_runtime.store.opening, mm_runtime.store.cli"
IN_TRITON = "; ".join(
    f"import mm_runtime.serving.{name}"
    for name in (
        "preprocess.preprocessing",
        "preprocess.by_family",
        "preprocess.remote_images",
        "encode.encoding",
        "encode.vision.tensorrt_open",
        "encode.native_outputs",
        "postprocess.postprocessing",
        "bls.pipeline",
    )
)
STEPS = "; ".join(
    f"import mm_runtime.engine_build.commands.{name}"
    for name in ("check_tools", "make_tokenizer", "processor", "verify_engines")
)


def imported(program: str, absent: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        tied([sys.executable, "-c", ABSENT.format(absent=set(absent)) + program]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        pytest.param(GATEWAY, (*CLIENTS, *ENGINES), id="gateway", marks=pytest.mark.triton),
        pytest.param(SUPERVISOR, (*CLIENTS, *ENGINES), id="supervisor"),
        pytest.param(TRTLLM_SERVE, (*CLIENTS, *ENGINES), id="supervisor-of-trtllm-serve"),
        pytest.param(BUILD, (*CLIENTS, *ENGINES), id="build"),
        pytest.param(FETCH, (*CLIENTS, *ENGINES), id="steps-that-fetch"),
        pytest.param(IN_TRITON, (*CLIENTS, *GATEWAYS, *ENGINES), id="models-inside-triton"),
        pytest.param(STEPS, (*CLIENTS, *GATEWAYS, *ENGINES), id="steps-beside-tensorrt-llm"),
    ],
)
def test_what_is_not_needed_may_be_absent(program: str, absent: tuple[str, ...]) -> None:
    """Each part starts without the packages of the others."""
    done = imported(program, absent)

    assert done.returncode == 0, done.stderr


def test_absent_packages_are_absent() -> None:
    """The test above would see an import of one."""
    assert "No module named 'av'" in imported("import av", ("av",)).stderr


@pytest.mark.parametrize("kind", ["audio", "video"])
def test_recordings_are_refused_by_name_without_a_decoder(kind: str) -> None:
    """A request with audio or video learns that the image cannot decode it."""
    program = (
        "from mm_runtime.gateway.media.container import BadRecordingError, opened\n"
        "try:\n"
        f"    with opened(b'fLaC', {kind!r}): pass\n"
        "except BadRecordingError as error:\n"
        "    print(error)\n"
    )

    done = imported(program, ("av",))

    expected = f"this server cannot decode {kind}: its image lacks the package av\n"
    assert (done.stdout, done.stderr) == (expected, "")
