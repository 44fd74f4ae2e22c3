"""The huge packages get a layer of their own, and nothing is lost on the way."""

from pathlib import Path

from mm_devcluster.images.environment import OPERATOR, RUNTIME_CPU, split_requirements
from mm_devcluster.images.sources import ROOT
from mm_devcluster.images.trim import is_needed
from support.cases import cases

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
    return [line.partition("==")[0] for line in text.splitlines() if "==" in line]


def test_packages_go_with_their_hashes() -> None:
    heavy, rest = split_requirements(TEXT, ("nvidia-c", "torch"))
    assert heavy == (
        "nvidia-cublas==13.4 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
        "torch==2.15.0 \\\n    --hash=sha256:ee\n"
    )
    assert names(rest) == ["numpy", "nvidia-pytriton"]


def test_without_heavy_packages_everything_is_one_layer() -> None:
    assert split_requirements(TEXT, OPERATOR.heavy) == ("", TEXT)


def test_the_runtime_keeps_every_package() -> None:
    """Both layers of the runtime together are the pinned environment; Triton is not in torch's."""
    text = (Path(ROOT) / "requirements" / "runtime-cpu.txt").read_text()
    heavy, rest = split_requirements(text, RUNTIME_CPU.heavy)
    assert sorted(names(heavy) + names(rest)) == sorted(names(text))
    assert "torch" in names(heavy)
    assert "nvidia-cublas" in names(heavy)
    assert "nvidia-pytriton" in names(rest)


@cases(
    "path needed",
    {
        "linked-by-torch": ("nvidia/cu13/lib/libcublas.so.13", True),
        "cudnn-loader": ("nvidia/cudnn/lib/libcudnn.so.9", True),
        "cudnn-engine": ("nvidia/cudnn/lib/libcudnn_ops.so.9", False),
        "nested-header": ("nvidia/cu13/include/a/b.h", False),
        "torch-wants-its-shm-manager": ("torch/bin/torch_shm_manager", True),
        "protoc": ("torch/bin/protoc", False),
        "torch-header": ("torch/include/ATen/ATen.h", False),
        "foreign-script": ("bin/kopf", False),
        "module": ("kopf/__init__.py", True),
        "the-server": ("pytriton/tritonserver/bin/tritonserver", True),
    },
)
def test_only_what_no_cpu_reads_is_left_out(path: str, needed: bool) -> None:  # noqa: FBT001 - a parameter
    """Libraries that torch is linked to stay; engines, headers and scripts go."""
    assert is_needed(path) == needed
