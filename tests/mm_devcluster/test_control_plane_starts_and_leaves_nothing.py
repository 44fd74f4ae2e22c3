"""A control plane without a node serves the API, runs controllers, and goes without a trace."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mm_devcluster.cluster import (
    ClusterInfo,
    ClusterOptions,
    down,
    load_image,
    restart_part,
    status,
    up,
)
from mm_devcluster.errors import AlreadyRunningError, DevClusterError, NotRunningError
from mm_devcluster.paths import cluster_dir, state_dir
from mm_devcluster.processes import Process, find_process
from mm_devcluster.status import PartStatus
from support.clusters import kubectl, kubectl_json, running_cluster
from support.eventually import eventually

pytestmark = pytest.mark.cluster


def processes_of(name: str) -> list[Process]:
    pids = [part.pid for part in status(name).parts if part.pid is not None]
    return [process for process in map(find_process, pids) if process is not None]


def supervisor_of(name: str) -> int:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        # Others come and go meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            if f"clusters/{name}/supervisor.json".encode() in file.read_bytes():
                return int(file.parent.name)
    raise AssertionError(f"{name} has no supervisor")


def test_the_api_server_is_the_pinned_release(control_plane: ClusterInfo) -> None:
    version = kubectl_json(control_plane, "version")["serverVersion"]["gitVersion"]
    assert version == "v1.36.3"


def test_a_part_that_dies_is_started_again(control_plane: ClusterInfo) -> None:
    def scheduler() -> PartStatus:
        return {part.name: part for part in status(control_plane.name).parts}["kube-scheduler"]

    before = scheduler().restarts
    restart_part(control_plane.name, "kube-scheduler")
    eventually(lambda: scheduler().running and scheduler().restarts == before + 1)


def test_starting_it_again_changes_nothing(control_plane: ClusterInfo) -> None:
    options = ClusterOptions(name=control_plane.name, control_plane_only=True)
    before = processes_of(control_plane.name)
    again = up(options)
    assert (again, processes_of(control_plane.name)) == (control_plane, before)
    with pytest.raises(AlreadyRunningError, match="it was started without a node"):
        up(ClusterOptions(name=control_plane.name))


def test_images_cannot_be_loaded_without_a_node(control_plane: ClusterInfo) -> None:
    with pytest.raises(DevClusterError, match="has no node to load images into"):
        load_image(control_plane.name, Path("image.tar"))


@pytest.mark.slow
def test_two_run_side_by_side_and_leave_nothing(control_plane: ClusterInfo) -> None:
    """The second has ports of its own; once down, its processes and files are gone."""
    name = f"tests-two-{os.getpid()}"
    with running_cluster(
        ClusterOptions(name=name, control_plane_only=True, owner_pid=os.getpid())
    ) as second:
        assert second.server != control_plane.server
        assert kubectl(second, "get", "namespace", "default", "-o=name") == "namespace/default\n"
        processes = processes_of(name)
        assert len(processes) == 4
    assert [process for process in processes if process.alive] == []
    assert not cluster_dir(name).exists()
    assert status(name).running is False
    assert status(control_plane.name).ready


@pytest.mark.slow
def test_a_cluster_ends_with_its_owner() -> None:
    name = f"tests-orphan-{os.getpid()}"
    program = (
        "import os, time\n"
        "from mm_devcluster.cluster import ClusterOptions, up\n"
        f"up(ClusterOptions(name={name!r}, control_plane_only=True, owner_pid=os.getpid()))\n"
        "print('up', flush=True)\n"
        "time.sleep(120)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as owner:
        try:
            assert owner.stdout.readline() == "up\n"
            processes = processes_of(name)
            owner.send_signal(signal.SIGKILL)
            owner.wait(timeout=60)
            eventually(lambda: not cluster_dir(name).exists())
        finally:
            owner.kill()
            down(name)
    assert len(processes) == 4
    assert [process for process in processes if process.alive] == []


@pytest.mark.slow
def test_a_cluster_that_died_is_reported_and_started_again() -> None:
    name = f"tests-died-{os.getpid()}"
    options = ClusterOptions(name=name, control_plane_only=True, owner_pid=os.getpid())
    with running_cluster(options) as cluster:
        parts = processes_of(name)
        os.kill(supervisor_of(name), signal.SIGKILL)
        eventually(lambda: not any(process.alive for process in parts))
        assert "It died" in status(name).state
        with pytest.raises(NotRunningError, match=f"mm-devcluster up --name {name}"):
            restart_part(name, "etcd")
        up(options)
        assert kubectl(cluster, "get", "namespace", "default", "-o=name")


def test_a_start_out_of_time_says_what_was_awaited() -> None:
    """The message carries the end of the log; nothing runs on, and the logs stay to be read."""
    name = f"tests-late-{os.getpid()}"
    try:
        with pytest.raises(DevClusterError, match="no API server after"):
            up(ClusterOptions(name=name, control_plane_only=True, timeout=0.01))
        kept = state_dir() / "failed" / name
        assert (cluster_dir(name).exists(), (kept / "supervisor.log").exists()) == (False, True)
    finally:
        down(name)
    assert not kept.exists()
