"""What runs beside TensorRT-LLM runs with exactly the packages that its image holds."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.engine_manifest import EngineManifest
from mm_runtime.repository.layout import SHIPPED
from published_layout import published
from support.native.engines import checkpoint_of
from support.needs import ROOT
from support.trtllm_sites import trtllm_site
from support.trtllm_tools.install import install
from support.twin import KEPT, Twin, normalised, pinned, versions

pytestmark = [pytest.mark.twin, pytest.mark.timeout(600)]

MODELS = ROOT / "runtime" / "mm_runtime" / "repository" / "models"
STEPS = (
    *("check_tools", "evaluation", "fit_tokenizer_info", "lora", "make_tokenizer"),
    *("openai_layout", "processor", "unpickle", "verify_engines"),
    "checkpoint_answers",
)
LISTED = "import json; from importlib.metadata import distributions as d; "
LISTED += "print(json.dumps([(one.metadata['Name'], one.version) for one in d()]))"


def python_backend() -> Path:
    """Return the folder of Triton's module for Python models, which the image has."""
    spec = find_spec("pytriton")
    assert spec
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / "tritonserver/backends/python"


@pytest.fixture(params=versions())
def twin(request: pytest.FixtureRequest) -> Twin:
    found = Twin(request.param)
    if found.absent:
        pytest.skip(found.absent)
    return found


def test_a_twin_holds_its_list_and_nothing_else(twin: Twin) -> None:
    """Each package of the list in its version, and none that only a development machine has."""
    done = twin.run("-I", "-S", "-c", f"import site; site.addsitedir({site_of(twin)!r}); {LISTED}")
    assert done.returncode == 0, done.stderr
    found = {normalised(name): one for name, one in reversed(json.loads(done.stdout))}
    expected = pinned(ROOT / "tools" / "twins" / f"{twin.version}.txt")
    added = pinned(ROOT / "requirements" / "trtllm-engine.txt")
    assert {name: found.get(name) for name in expected} == expected
    assert set(found) - set(expected) - set(added) == set()


def site_of(twin: Twin, environment: str = "engine") -> str:
    return str(next((twin.folder / environment / "lib").glob("python3.*")) / "site-packages")


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "tensorrt_llm"])
def test_models_inside_triton_are_imported(twin: Twin, name: str) -> None:
    """Triton's Python backend loads the model's file in the image's interpreter."""
    given = {"PYTHONPATH": str(python_backend())}
    program = f"import runpy; runpy.run_path({str(MODELS / f'{name}.py')!r})"
    assert twin.run("-c", program, variables=given).stderr == ""


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_builds_are_imported(twin: Twin, name: str) -> None:
    """A step of a build ends for a reason of its own, never for a module that is not there."""
    if name == "checkpoint_answers" and not KEPT[twin.version]:
        pytest.skip("step `evaluation` says that it is skipped: see the tests of kept answers")
    done = twin.run("-c", f"import mm_runtime.engine_build.commands.{name}")
    assert (done.returncode, done.stderr) == (0, "")


def test_doctor_finds_what_the_image_has(twin: Twin, tmp_path: Path) -> None:
    """Beside the recorded tools only Triton with its backend and the driver are missing."""
    python = twin.python("engine")
    tools = install(tmp_path / "tools", f"{twin.version}", python=str(python))
    done = twin.run(
        *("-m", "mm_runtime", "doctor", "--backend", "TensorRT", "-o", "json"),
        environment="supervisor",
        variables=tools.environment("/usr/bin:/bin"),
    )
    findings = json.loads(done.stdout)["findings"]
    failed = {one["name"] for one in findings if one["outcome"] == "fail"}
    assert failed == {"tritonserver", "backend", "driver"}


@pytest.mark.parametrize("family", ["llava", "qwen2-vl", "t5"])
def test_engines_are_built_with_the_recorded_tools(twin: Twin, family: str, tmp_path: Path) -> None:
    if (family, twin.version) == ("qwen2-vl", "0.17"):
        pytest.skip("refused by name before a build: its backend is newer (FamilyNeedsNewer)")
    python = twin.python("engine")
    tools = install(tmp_path / "tools", f"{twin.version}", python=str(python))
    source = published(checkpoint_of(family, tmp_path / "new"), tmp_path / "published")
    engine = {"guidedDecoding": "Off"}
    site = trtllm_site(tmp_path / "site", tools, family, engine, source=source)
    done = twin.run(
        *("-m", "mm_runtime", *site.arguments),
        environment="supervisor",
        variables=tools.environment("/usr/bin:/bin"),
    )
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    manifest = EngineManifest.from_json(site.paths.manifest.read_bytes())
    own = pinned(ROOT / "tools" / "twins" / f"{twin.version}.txt")
    assert manifest.versions["tensorrt_llm"] == twin.version
    assert manifest.versions.get("transformers", own["transformers"]) == own["transformers"]


@pytest.mark.root
def test_the_steps_of_the_dockerfile_run_on_a_twin(twin: Twin) -> None:
    """COPY, RUN and USER are as the file has them, its last checks too; no package is fetched."""
    command: list[str | Path] = [sys.executable, ROOT / "bench" / "gpu" / "dockerfile.py"]
    command += ["--file", ROOT / "runtime" / "Dockerfile.trtllm", "--engine", twin.python("engine")]
    command += ["--packages", site_of(twin, "supervisor"), twin.folder / "packages"]
    command += ["--argument", "TRITON_IMAGE=twin", "ENGINE_PYTHON=/usr/local/bin/engine-python"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr
    assert "\n65532:65532 /opt/multimodal/venv/bin/mm-runtime " in done.stdout
