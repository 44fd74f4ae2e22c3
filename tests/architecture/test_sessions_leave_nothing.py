"""What tests leave in the folder of temporary files goes with their session, killed or not."""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from support.ended import end
from support.temporary import SERVER

TESTS = Path(__file__).resolve().parents[1]

KILLED = """
import os, signal, tempfile
from pathlib import Path

def test_leaves_a_folder_behind(tmp_path):
    (Path(tempfile.mkdtemp(prefix="left-")) / "file").touch()
    os.kill({process}, signal.SIGKILL)
"""
PASSES = "def test_passes():\n    pass\n"
WORKER, SESSION = "os.getpid()", "os.getppid()"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def session(root: Path, script: str, workers: int = 1) -> "subprocess.CompletedProcess[str]":
    (root.parent / "test_one.py").write_text(script)
    apart = ("PYTEST_", "TMPDIR")  # what this session gives to its processes
    environment = {k: v for k, v in os.environ.items() if not k.startswith(apart)}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-n", str(workers)]
    command += ["-p", "support.temporary", "-p", "no:cacheprovider", "test_one.py"]
    return subprocess.run(
        command,
        cwd=root.parent,
        env={**environment, "TMPDIR": str(root), "PYTHONPATH": str(TESTS)},
        timeout=120,
        check=False,
        capture_output=True,
        text=True,
    )


def left_in(root: Path) -> list[str]:
    return sorted(one.name for one in root.iterdir() if not one.name.startswith("pytest-of-"))


@pytest.mark.slow
def test_a_killed_workers_files_go_with_the_session(root: Path) -> None:
    """Files that pytest keeps of the test itself stay for the reader of its failure."""
    ended = session(root, KILLED.format(process=WORKER))
    assert "crashed" in ended.stdout, ended
    assert left_in(root) == []
    assert list(root.glob("pytest-of-*/pytest-0/popen-gw0/test_leaves_a_folder_behind0"))


def test_a_killed_sessions_files_go_with_the_next(root: Path) -> None:
    session(root, KILLED.format(process=SESSION))
    assert len(left_in(root)) == 1
    assert session(root, PASSES, workers=0).returncode == 0
    assert left_in(root) == []


def test_empty_folders_of_servers_that_have_ended_go(root: Path) -> None:
    """One that holds something, or that a server that runs may have made, is left."""
    program = root.parent / SERVER
    program.symlink_to(sys.executable)
    server = subprocess.Popen([program, "-I", "-S", "-c", "import time; time.sleep(240)"])
    made = [Path(tempfile.mkdtemp(prefix="python_env_", dir="/tmp")) for _ in range(3)]
    of_the_dead, full, _ = made
    try:
        (full / "file").touch()
        for one in (of_the_dead, full):
            os.utime(one, (0, 0))
        assert session(root, PASSES, workers=0).returncode == 0
        assert [one.is_dir() for one in made] == [False, True, True]
    finally:
        end(server)
        (full / "file").unlink()
        for one in made:
            with suppress(FileNotFoundError):
                one.rmdir()
