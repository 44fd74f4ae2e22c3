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

GATEWAY = ("gateway.main", "gateway.wiring")
SUPERVISORS = (
    *("launch.serve", "launch.tritonserver", "backends.pytorch.server", "backends.pytorch.client"),
    *("engine_build.run", "store.cli"),
    *("engine_build.commands.fetch", "engine_build.commands.fetch_adapters"),
)
"""Of Triton, of trtllm-serve and of builds; the steps that fetch."""

BESIDE_TENSORRT_LLM = (
    *("serving.preprocess.preprocessing", "serving.preprocess.by_family"),
    *("serving.preprocess.remote_images", "serving.encode.encoding"),
    *("serving.encode.vision.tensorrt_open", "serving.encode.native_outputs"),
    *("serving.postprocess.postprocessing", "serving.bls.pipeline"),
    *("engine_build.commands.check_tools", "engine_build.commands.make_tokenizer"),
    *("engine_build.commands.processor", "engine_build.commands.verify_engines"),
)
"""Models inside Triton, and steps of builds."""


def imported(program: str, absent: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        tied([sys.executable, "-c", ABSENT.format(absent=set(absent)) + program]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        pytest.param(GATEWAY, (*CLIENTS, *ENGINES), id="gateway", marks=pytest.mark.triton),
        pytest.param(SUPERVISORS, (*CLIENTS, *ENGINES), id="supervisors"),
        pytest.param(
            BESIDE_TENSORRT_LLM, (*CLIENTS, *GATEWAYS, *ENGINES), id="beside-tensorrt-llm"
        ),
    ],
)
def test_what_is_not_needed_may_be_absent(
    modules: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    done = imported("; ".join(f"import mm_runtime.{name}" for name in modules), absent)

    assert done.returncode == 0, done.stderr


def test_absent_packages_are_absent() -> None:
    """The test above would see an import of one."""
    assert "No module named 'av'" in imported("import av", ("av",)).stderr


@pytest.mark.parametrize("kind", ["audio", "video"])
def test_recordings_are_refused_by_name_without_a_decoder(kind: str) -> None:
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
