"""The huge packages get a layer of their own, and nothing is lost on the way."""

from pathlib import Path

import pytest

from mm_devcluster.images.environment import OPERATOR, RUNTIME_CPU, split_requirements
from mm_devcluster.images.sources import ROOT
from mm_devcluster.images.trim import is_needed

TEXT = """\
# Pinned.
numpy==1.26.4 \\
    --hash=sha256:aa
nvidia-cublas==13.4 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
nvidia-pytriton==0.7.0 \\
    --hash=sha256:dd
torch==2.15.0 \\
    --hash=sha256:ee
"""


def names(text: str) -> list[str]:
    """Return the packages of a requirements file."""
    return [line.partition("==")[0] for line in text.splitlines() if "==" in line]


def test_packages_go_with_their_hashes() -> None:
    """A requirement and the hashes below it land in the same part."""
    heavy, rest = split_requirements(TEXT, ("nvidia-c", "torch"))
    assert heavy == (
        "nvidia-cublas==13.4 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
        "torch==2.15.0 \\\n    --hash=sha256:ee\n"
    )
    assert names(rest) == ["numpy", "nvidia-pytriton"]


def test_without_heavy_packages_everything_is_one_layer() -> None:
    """The operator's environment is not split."""
    assert split_requirements(TEXT, OPERATOR.heavy) == ("", TEXT)


def test_the_runtime_keeps_every_package() -> None:
    """Both layers of the runtime together are the pinned environment; Triton is not in torch's."""
    text = (Path(ROOT) / "requirements" / "runtime-cpu.txt").read_text()
    heavy, rest = split_requirements(text, RUNTIME_CPU.heavy)
    assert sorted(names(heavy) + names(rest)) == sorted(names(text))
    assert "torch" in names(heavy)
    assert "nvidia-cublas" in names(heavy)
    assert "nvidia-pytriton" in names(rest)


@pytest.mark.parametrize(
    ("path", "needed"),
    [
        pytest.param("nvidia/cu13/lib/libcublas.so.13", True, id="linked-by-torch"),
        pytest.param("nvidia/cudnn/lib/libcudnn.so.9", True, id="cudnn-loader"),
        pytest.param("nvidia/cudnn/lib/libcudnn_ops.so.9", False, id="cudnn-engine"),
        pytest.param("nvidia/cu13/include/a/b.h", False, id="nested-header"),
        pytest.param("torch/bin/torch_shm_manager", True, id="torch-wants-its-shm-manager"),
        pytest.param("torch/bin/protoc", False, id="protoc"),
        pytest.param("torch/include/ATen/ATen.h", False, id="torch-header"),
        pytest.param("bin/kopf", False, id="foreign-script"),
        pytest.param("kopf/__init__.py", True, id="module"),
        pytest.param("pytriton/tritonserver/bin/tritonserver", True, id="the-server"),
    ],
)
def test_only_what_no_cpu_reads_is_left_out(path: str, needed: bool) -> None:  # noqa: FBT001 - a parameter
    """Libraries that torch is linked to stay; engines, headers and scripts go."""
    assert is_needed(path) == needed
