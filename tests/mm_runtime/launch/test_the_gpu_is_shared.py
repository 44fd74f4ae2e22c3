"""MPS is started, checked and given up with a message.

The control program here is a recorded one: it knows the commands that are used, refuses others,
and answers as NVIDIA's did on an H100 (bench/sharing, where the real one ran).
"""

import logging
import os
from pathlib import Path

import pytest

from mm_api.documents.serving_plan import GpuSharing
from mm_runtime.launch.mps import MpsDaemon, MpsUnavailableError, numbers
from mm_runtime.launch.sharing import Mode, shared
from mm_runtime.serving.encode.shares import PERCENTAGE, PRIORITY, limit_this_process
from support.cases import cases

PLAN = GpuSharing(mode="MPS", thread_percentage=25)

CONTROL = """#!/bin/sh
set -eu
[ -d "$CUDA_MPS_PIPE_DIRECTORY" ] && [ -d "$CUDA_MPS_LOG_DIRECTORY" ]
echo "$*" >> "$CUDA_MPS_LOG_DIRECTORY/said"
if [ "$*" = -d ]; then
  [ ! -e "$HERE/broken" ] || { echo "An instance of this daemon is already running"; exit 1; }
  touch "$CUDA_MPS_PIPE_DIRECTORY/control"; exit 0
fi
[ -e "$CUDA_MPS_PIPE_DIRECTORY/control" ] || { echo "Cannot find MPS control daemon"; exit 1; }
read -r command || true
case "$command" in
  get_server_list) echo 41 ;;
  "get_client_list 41") cat "$HERE/clients" ;;
  quit) rm "$CUDA_MPS_PIPE_DIRECTORY/control"; touch "$HERE/quit" ;;
  *) echo "Invalid command: $command"; exit 1 ;;
esac
"""


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-cuda-mps-control"
    program.write_text(CONTROL)
    program.chmod(0o755)
    (folder / "clients").write_text("7\n9\n")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HERE", str(folder))
    return folder


def test_processes_join(control: Path, tmp_path: Path) -> None:
    with shared(PLAN, tmp_path / "mps") as sharing:
        assert {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"} == set(sharing.environment)
        sharing.check()
        assert sharing.mode is Mode.MPS
        assert not (control / "quit").exists()
    assert (control / "quit").exists()


def test_a_process_outside_is_noticed(
    control: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (control / "clients").write_text("7\n")
    with caplog.at_level(logging.ERROR), shared(PLAN, tmp_path / "mps") as sharing:
        sharing.check()
        assert sharing.mode is Mode.TIME_SLICES
    assert "1 processes joined, expected 2" in caplog.text
    assert "spec.vision.sharing" in caplog.text


@cases(
    "program words",
    {
        "missing": ("missing", "nvidia-cuda-mps-control is not in this image"),
        "does-not-start": ("broken", "already running"),
    },
)
def test_without_the_daemon_the_server_starts(
    control: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    program: str,
    words: str,
) -> None:
    if program == "missing":
        monkeypatch.setenv("PATH", str(control.parent))
    (control / "broken").touch()
    with shared(PLAN, control.parent / "mps") as sharing:
        assert (sharing.mode, sharing.environment) == (Mode.TIME_SLICES, {})
        sharing.check()
    assert words in caplog.text


@cases(
    "plan mode",
    {
        "one-process": (None, Mode.NONE),
        "requested": (GpuSharing(mode="TimeSlicing", thread_percentage=25), Mode.TIME_SLICES),
    },
)
def test_no_daemon_where_none_is_requested(
    control: Path, tmp_path: Path, plan: GpuSharing | None, mode: Mode
) -> None:
    with shared(plan, tmp_path / "mps") as sharing:
        sharing.check()
        assert (mode, {}) == (sharing.mode, sharing.environment)
    assert not (tmp_path / "mps").exists()
    assert not (control / "quit").exists()


def test_a_daemon_that_is_gone_is_an_error(control: Path, tmp_path: Path) -> None:
    with MpsDaemon(tmp_path / "mps") as daemon:
        (tmp_path / "mps" / "pipe" / "control").unlink()
        with pytest.raises(MpsUnavailableError, match="Cannot find MPS control daemon"):
            daemon.clients()
        (tmp_path / "mps" / "pipe" / "control").touch()
    assert (control / "quit").exists()


def test_only_numbers_are_processes() -> None:
    assert numbers("41\nServer 3 is up\n 42 \n") == (41, 42)


@pytest.mark.parametrize(
    ("parameters", "expected"), [({"mps_thread_percentage": "25"}, ("25", "1")), ({}, (None, None))]
)
def test_the_encoder_limits_itself(
    monkeypatch: pytest.MonkeyPatch,
    parameters: dict[str, str],
    expected: tuple[str | None, str | None],
) -> None:
    """The share of the model's configuration, below normal priority, is what CUDA will read."""
    for name in (PERCENTAGE, PRIORITY):
        monkeypatch.setenv(name, "")  # what the call sets is taken back, too
        monkeypatch.delenv(name)
    limit_this_process(parameters)
    assert expected == (os.environ.get(PERCENTAGE), os.environ.get(PRIORITY))
