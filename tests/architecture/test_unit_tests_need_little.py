"""`make unit` selects by what tests need, and a unit test that begins to need more fails there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.needs import LIBRARIES, ROOT, needed_by
from support.scripts import load_tool

NEEDS_MORE = """\
import ctypes
import os
import subprocess
import sys

from mm_devcluster.binaries import ensure_binaries
from mm_devcluster.cluster import ClusterOptions, up


def test_library():
    import torch


def test_library_of_a_child():
    subprocess.run([sys.executable, "-c", "import tritonclient.grpc"], check=True)


def test_root():
    os.chroot("/")


def test_network_namespace():
    new_network = 0x40000000
    assert ctypes.CDLL(None).unshare(new_network) == 0


def test_programs():
    ensure_binaries(["kubectl"])


def test_cluster():
    up(ClusterOptions(name="of-a-unit-test", control_plane_only=True))
"""
NOTHING_MORE = "def test_sum():\n    assert 1 + 1 == 2\n"
OTHERS = {
    "imports_torch": "import torch\n\ndef test_sum():\n    assert 1 + 1 == 2\n",
    "needs_a_cluster": "def test_pod(control_plane):\n    assert control_plane\n",
    "is_marked": "import pytest\n\n@pytest.mark.triton\ndef test_server():\n    assert True\n",
}
IMPORT_MORE = {
    "tests/mm_ctl/commands/test_costs_come_from_prometheus.py",
    "tests/mm_operator/children/test_servers_are_reached_and_probed.py",
    "tests/mm_operator/children/test_pods_request_planned_gpus.py",
    "tests/mm_runtime/adapters/test_adapters_are_read.py",
    "tests/mm_runtime/inspect/test_weights_of_every_class_are_accepted.py",
    "tests/mm_api/checkpoint/test_missing_keys_have_transformers_defaults.py",
    "tests/mm_operator/telemetry/test_models_become_series.py",
    "tests/mm_runtime/inspect/test_examples_are_in_the_published_layout.py",
}
"""Tests of pure packages that look at a real model or a real Prometheus."""


def run(folder: Path) -> str:
    # Below the folder of an empty configuration: no conftest of ours, no cache in the checkout.
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = triton\n")
    command = [sys.executable, ROOT / "tools" / "unit.py", "-c", folder / "pytest.ini"]
    command += ["-p", "no:cacheprovider", "-q", "--rootdir", folder, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    return done.stdout + done.stderr


def test_a_unit_test_that_needs_more_fails(tmp_path: Path) -> None:
    """A library, a right of root's, a namespace, a program, a cluster: each by itself."""
    (tmp_path / "test_more.py").write_text(NEEDS_MORE)
    (tmp_path / "test_nothing.py").write_text(NOTHING_MORE)

    output = run(tmp_path)

    failed = set(re.findall(r"^FAILED \S*test_more\.py::(\w+)", output, re.MULTILINE))
    assert failed == set(re.findall(r"def (test_\w+)", NEEDS_MORE))
    assert f"{len(failed)} failed, 1 passed" in output


def test_what_needs_more_is_left_out(tmp_path: Path) -> None:
    """By an import, by a fixture, by a marker: neither run nor imported."""
    for name, text in OTHERS.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    (tmp_path / "test_nothing.py").write_text(NOTHING_MORE)

    assert "1 passed, 2 deselected" in run(tmp_path)


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("import torch.nn\n", {"torch"}),
        (
            "from mm_runtime.backends.triton_server.engine import TritonEngine\n",
            {"tritonclient.grpc", "tritonclient.utils"},
        ),
        ("def late():\n    import torch\n", set()),
        ("from support.prometheus import Prometheus\n", {"support.prometheus"}),
    ],
    ids=["directly", "through-a-module", "only-when-called", "through-a-helper"],
)
def test_needs_follow_imports(text: str, needed: set[str], tmp_path: Path) -> None:
    (tmp_path / "test_any.py").write_text(text)

    assert needed_by(tmp_path / "test_any.py") == needed


def test_tests_of_pure_packages_are_unit_tests() -> None:
    folders = load_tool("mutants").TESTS
    files = [
        file
        for one in map(ROOT.joinpath, folders)
        for file in ([one] if one.is_file() else one.rglob("test_*.py"))
    ]

    assert {str(file.relative_to(ROOT)) for file in files if needed_by(file)} == IMPORT_MORE


def test_hidden_libraries_are_those_of_the_engines() -> None:
    """The operator's own environment holds none of them: hiding takes nothing from it."""
    pinned = (ROOT / "requirements" / "operator.txt").read_text(encoding="utf-8")
    names = set(re.findall(r"^([a-z0-9-]+)==", pinned, re.MULTILINE))

    assert names
    assert names.isdisjoint({name.partition(".")[0].replace("_", "-") for name in LIBRARIES})
