"""What a process says of its GPU before it ends, and when it does."""

from pathlib import Path

import pytest

from mm_runtime.base.faults import VARIABLE, Fault, FaultKind
from mm_runtime.serving.gpu_guard import EXIT_CODE, GpuGuard, guard_of, loading
from support.cases import cases


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "fault.json"))
    return tmp_path / "fault.json"


@cases(
    "error computes expected",
    {
        "lost": (RuntimeError("CUDA error: illegal access"), False, True),
        "of a request": (RuntimeError("shapes differ"), True, False),
        "full": (OutOfMemoryError("2 GiB"), False, False),
    },
)
def test_which_errors_end_a_process(error: Exception, computes: bool, expected: bool) -> None:  # noqa: FBT001
    assert GpuGuard(lambda: computes).lost(error) is expected


def test_a_processor_is_never_lost() -> None:
    assert not guard_of("CPU").lost(RuntimeError("CUDA error"))


def test_the_end_says_why(said: Path) -> None:
    """The supervisor reads the first fault: later ones follow from it."""
    codes: list[int] = []
    guard = GpuGuard(lambda: False, end=codes.append)
    guard.end(RuntimeError("CUDA error: illegal access\nSearch for it"))
    guard.end(RuntimeError("another"))

    fault = Fault.read(said)
    assert codes == [EXIT_CODE, EXIT_CODE]
    assert fault is not None
    assert fault.kind is FaultKind.LOST
    assert "CUDA error: illegal access. The server is started again" in fault.message


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "tired", "message": "x"}', None])
def test_files_that_say_nothing(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "fault.json"
    if content is not None:
        path.write_text(content)
    assert Fault.read(path) is None


def test_without_a_supervisor_nothing_is_written(tmp_path: Path) -> None:
    """A model that runs elsewhere has no place to say it."""
    Fault(FaultKind.LOST, "x").report({})
    Fault(FaultKind.LOST, "x").report({VARIABLE: str(tmp_path / "no" / "folder")})
    assert not list(tmp_path.iterdir())


def test_a_node_without_a_gpu_is_said_while_loading(said: Path) -> None:
    pytest.importorskip("torch")
    from mm_runtime.serving.device import open_device, why_unusable  # noqa: PLC0415

    if not why_unusable():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="cannot use a GPU"), loading("it", "CUDA"):
        open_device("CUDA")

    fault = Fault.read(said)
    assert fault is not None
    assert fault.kind is FaultKind.LOST
    assert "set spec.runtime.gpu.count to 0" in fault.message
