"""With device CUDA a pinned memory pool is refused: a full CUDA pool would give wrong answers."""

from pathlib import Path

import pytest

from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.errors import PermanentError
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.tritonserver import prepare_triton
from mm_runtime.settings import Ports
from support.build_plans import serving_plan
from support.cases import cases
from support.documents import manifest

pytestmark = pytest.mark.triton  # its backends are copied


def options(folder: Path, device: str, pinned_bytes: int) -> ServeOptions:
    pools = MemoryPools(cuda_bytes=64 << 20, pinned_bytes=pinned_bytes, shm_bytes=64 << 20)
    return ServeOptions(
        manifest=folder / "manifest.json",
        serving_path=folder / "serving.json",
        serving=serving_plan(manifest().fingerprint, device=device, pools=pools),
        repository=folder / "server" / "repository",
        ports=Ports(),
    )


def test_a_pinned_pool_is_refused(tmp_path: Path) -> None:
    """Before anything is written, with the field that decides."""
    with pytest.raises(PermanentError, match=r"expected 0.*spec\.runtime\.memoryPools\.pinned"):
        prepare_triton(options(tmp_path, "CUDA", 1 << 20), manifest())

    assert not (tmp_path / "server").exists()


@cases("device pinned", {"none": ("CUDA", 0), "cpu": ("CPU", 1 << 20)})
def test_other_plans_are_prepared(tmp_path: Path, device: str, pinned: int) -> None:
    server = prepare_triton(options(tmp_path, device, pinned), manifest())

    assert f"--pinned-memory-pool-byte-size={pinned}" in server.argv
