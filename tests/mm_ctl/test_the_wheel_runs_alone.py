"""The wheel `mmctl` in an environment of its own: it runs there, without torch or a server."""

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from mm_devcluster.images.sources import PYTHON, find_uv
from support.cases import cases
from support.model_configs import folder_of
from support.model_documents import document
from support.scripts import ROOT, load_tool

SECONDS = 120


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(load_tool("mmctl_wheel").build_wheel(tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel with what it declares, in the versions of the lock; return the folder."""
    folder = tmp_path_factory.mktemp("mmctl") / "venv"
    pins = ["--constraint", "requirements/dev.txt", "--override", "requirements/overrides.txt"]
    install = ["pip", "install", "--python", str(folder / "bin" / "python"), *pins, str(wheel)]
    for words in (["venv", "--python", PYTHON, str(folder)], install):
        subprocess.run([find_uv(), "--quiet", *words], cwd=ROOT, check=True, timeout=SECONDS)
    return folder


@cases(
    "words printed",
    {
        "help": (["--help"], "COMMAND"),
        "version": (["version"], "mmctl 0.1.0, serving.multimodal.dev/v1alpha1"),
        "validate": (["validate", "-f", "MODEL"], "m: valid"),
        "plan": (["plan", "-f", "MODEL", "--facts", "FACTS", "--gpu", "h100-80gb"], "GiB"),
        "page": (
            ["plan", "-f", "MODEL", "--facts", "FACTS", "--gpu", "h100-80gb", "-o", "html"],
            "</",
        ),
        "ui": (["ui", "--help"], "--no-browser"),
        "bash": (["completion", "bash"], "complete "),
        "fish": (["completion", "fish"], "complete --command mmctl"),
    },
)
def test_it_runs(words: list[str], printed: str, installed: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.yaml"
    spec = {"engine": {"backend": "TensorRT"}, "model": {"allowPickle": True}}
    model.write_text(yaml.safe_dump(document(spec, name="m")))
    places = {"MODEL": str(model), "FACTS": str(folder_of("llava"))}
    done = _run(installed / "bin" / "mmctl", *(places.get(word, word) for word in words))

    assert (done.returncode, done.stderr) == (0, "")
    assert printed in done.stdout


def test_words_are_completed(installed: Path, tmp_path: Path) -> None:
    found, line = tmp_path / "found", "mmctl va"
    variables = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1"}
    _run(installed / "bin" / "mmctl", **variables, _ARGCOMPLETE_STDOUT_FILENAME=str(found))
    done = _run(installed / "bin" / "kubectl_complete-mm", "plan", "--gpu")

    assert found.read_text().strip() == "validate"
    assert done.stdout.split() == ["--gpu", "--gpu-memory"]


def test_it_holds_no_server(installed: Path) -> None:
    (packages,) = installed.glob("lib/*/site-packages")
    there = {path.name for path in packages.iterdir()}
    servers = {"torch", "kopf", "uvicorn", "starlette", "prometheus_client", "tritonclient"}

    assert there & (servers | {"mm_router", "mm_edge", "mm_devcluster"}) == set()
    assert not (packages / "mm_runtime" / "gateway").exists()
    assert (packages / "mm_ctl" / "page" / "index.html").exists()


def test_krew_finds_the_archive(wheel: Path, tmp_path: Path) -> None:
    archive = load_tool("mmctl_wheel").build_plugin(tmp_path, wheel, "1.2.3", "https://x/y.tar.gz")
    (platform,) = yaml.safe_load((tmp_path / "mm.krew.yaml").read_text())["spec"]["platforms"]
    with tarfile.open(archive) as tar:
        names = set(tar.getnames())

    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert names == {platform["bin"], "LICENSE", "requirements.txt", wheel.name}


def _run(program: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    command, limit = [str(program), *words], SECONDS
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=limit
    )
