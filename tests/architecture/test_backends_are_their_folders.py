"""A backend is its folder: whatever else knows one has to be found when a backend is added.

`tools/size.py` counts names of backends, `.importlinter` keeps folders and registry apart; here is
what neither sees.
"""

import re

import pytest

from mm_api import backends
from mm_runtime.backends import BACKENDS
from support.needs import ROOT

RUNTIME = "runtime/mm_runtime/"
FOLDERS = f"{RUNTIME}backends/"
DEVICES = ("reference_engine/fused", "serving/device.py")
"""What decides by the device; the others are given an object of it."""

TABLES = {f"{RUNTIME}gateway/api/parameters.py": "which parameter acts on which backend"}
"""Module -> what it says of each backend, as data."""

RECORD = re.compile(
    r"^from mm_api\.backends import .*\b(?:PYTORCH|REFERENCE|TENSORRT|VLLM)\b", re.MULTILINE
)
PLAN = re.compile(r"\.(?:native|trtllm_serve|vllm_serve)\b")
DEVICE = re.compile(r"\bis_gpu\(")


def known(path: str, source: str) -> list[str]:
    if path.startswith(FOLDERS):
        return []
    patterns = [PLAN]
    patterns += [RECORD] if path not in TABLES else []
    patterns += [DEVICE] if not path.removeprefix(RUNTIME).startswith(DEVICES) else []
    return [f"{path}: {found[0]}" for one in patterns for found in one.finditer(source)]


def test_only_folders_know_a_backend() -> None:
    paths = sorted((ROOT / RUNTIME).rglob("*.py"))
    names = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    assert len(names) > 400
    assert [one for path, source in names.items() for one in known(path, source)] == []
    assert TABLES.keys() <= names.keys()


@pytest.mark.parametrize(
    "source",
    [
        "from mm_api.backends import BACKENDS, TENSORRT",
        "if serving.trtllm_serve is None:",
        "if values.native:",
        "if is_gpu(device):",
    ],
)
def test_what_knows_one_is_named(source: str) -> None:
    assert len(known(f"{RUNTIME}gateway/wiring.py", source)) == 1
    assert known(f"{FOLDERS}pytorch/client.py", source) == []
    assert known(f"{RUNTIME}serving/captures.py", source) != []


def test_every_backend_of_the_api_has_its_folder() -> None:
    assert BACKENDS.keys() == backends.BACKENDS.keys()
    for one in BACKENDS.values():
        assert type(one).__module__.startswith("mm_runtime.backends.")
