"""A store on a claim that is full, read-only, absent or damaged: seen, then repaired.

A disk is a tmpfs in the mount namespace of the node, so the machine itself never sees it; its files
are reached through `/proc`. Claims of any namespace may be bound to it.
"""

import logging
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.engine_manifest import MANIFEST_NAME
from mm_devcluster.cluster import ClusterInfo, status
from mm_devcluster.node.mountpoints import VOLUMES
from mm_runtime.store.directory import DirectoryStore
from mm_runtime.store.engines import problems
from support.builds import back_offs, build_only, running_build
from support.cases import cases
from support.clusters import apply, kubectl
from support.eventually import eventually
from support.installed import RESOURCES, Installed, Space
from support.volumes import bound

MOUNT_SECONDS = 20.0
BALLAST = "ballast"


@dataclass(frozen=True)
class NodeDisk:
    """A disk that is mounted on the node."""

    name: str
    pid: int
    """A process of the node."""

    @property
    def path(self) -> str:
        return f"{VOLUMES}/{self.name}"

    @property
    def files(self) -> Path:
        return Path(f"/proc/{self.pid}/root{self.path}")

    def engines(self) -> list[str]:
        names = (path.name for path in self.files.glob("engines/*"))
        return sorted(name for name in names if not name.startswith("."))

    def remount(self, options: str) -> None:
        self._run("mount", "-o", f"remount,{options}", self.path)

    def fill(self, free: int) -> None:
        with (self.files / BALLAST).open("wb") as file:
            file.write(bytes(self._free() - free))

    def relieve(self) -> None:
        (self.files / BALLAST).unlink()

    def _free(self) -> int:
        text = self._run("stat", "--file-system", "--format=%a %S", self.path)
        blocks, size = text.split()
        return int(blocks) * int(size)

    def _run(self, *command: str) -> str:
        everything = ("nsenter", f"--target={self.pid}", "--mount", "--pid", *command)
        done = subprocess.run(
            everything, capture_output=True, text=True, timeout=MOUNT_SECONDS, check=False
        )
        assert done.returncode == 0, f"{' '.join(everything)}: {done.stderr}"
        return done.stdout

    def _mount(self, mebibytes: int) -> None:
        self._run("mkdir", "-p", self.path)
        self._run("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0777", "mm", self.path)

    def _unmount(self) -> None:
        # Lazily: a pod that is still ending may hold it.
        self._run("umount", "--lazy", self.path)
        self._run("rmdir", self.path)


@contextmanager
def node_disk(cluster: ClusterInfo, name: str, *, mebibytes: int) -> Iterator[NodeDisk]:
    (kubelet,) = [part.pid for part in status(cluster.name).parts if part.name == "kubelet"]
    assert kubelet, "no kubelet runs"
    disk = NodeDisk(name, kubelet)
    disk._mount(mebibytes)
    try:
        yield disk
    finally:
        disk._unmount()


@contextmanager
def claimed(cluster: ClusterInfo, disk: NodeDisk, namespace: str, claim: str) -> Iterator[None]:
    volume = f"{disk.name}-{namespace}-{claim}"
    apply(cluster, *bound(volume, namespace, claim, path=disk.path))
    try:
        yield
    finally:
        removal = ("--ignore-not-found", "--wait=false")
        kubectl(cluster, "delete", "pvc", claim, "--namespace", namespace, *removal)
        kubectl(cluster, "delete", "pv", volume, *removal)


log = logging.getLogger(__name__)

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

CLAIM = "engines"
MEBIBYTES = 64
"""Ten times what a random LLaVA and its build take."""
SPARE_BYTES = 4096
"""Room for the lock of a build and nothing else."""
WEIGHTS = "llm/model.safetensors"


@pytest.fixture(name="disk")
def disk_of_one_test(installed: Installed, alone: Space) -> Iterator[NodeDisk]:
    with (
        node_disk(installed.cluster, "store-of-faults", mebibytes=MEBIBYTES) as disk,
        claimed(installed.cluster, disk, alone.name, CLAIM),
    ):
        yield disk
        alone.kubectl("delete", "mmm", "--all", "--timeout=60s")


def on_claim(claim: str = CLAIM, **parts: Any) -> dict[str, Any]:
    store = {"persistentVolumeClaim": {"claimName": claim}}
    return {"store": store, "resources": RESOURCES, **parts}


def job_of(space: Space, model: str) -> str:
    """Wait for a model's build and return the name of its Job.

    The name of an engine on a claim of the user's depends on the claim, too.
    """

    def reported() -> str:
        return str(space.read(model).get("status", {}).get("build", {}).get("jobName") or "")

    name = eventually(reported, seconds=120)
    assert name, space.read(model)
    return name


def complete(disk: NodeDisk) -> list[str]:
    store = DirectoryStore(disk.files)
    found = store.fingerprints()
    assert [problems(store, one) for one in found] == [[] for _ in found]
    return found


def test_a_read_only_store_is_reported(alone: Space, disk: NodeDisk) -> None:
    disk.remount("ro")
    alone.apply(build_only(alone, "read-only", "good", build=on_claim()))

    reported = alone.wait(
        "read-only", "EngineBuilt", lambda one: "Read-only file system" in one.message
    )
    before = disk.engines()
    disk.remount("rw")

    assert not reported.holds
    assert "The store at /mnt/store cannot be written" in reported.message
    assert before == []
    alone.wait("read-only", "EngineBuilt", lambda one: one.holds)
    assert len(complete(disk)) == 1


def test_a_full_store_is_reported(alone: Space, disk: NodeDisk) -> None:
    """The condition says how much is free; nothing half built is seen; room alone repairs it."""
    disk.fill(free=SPARE_BYTES)
    alone.apply(build_only(alone, "full", "good", build=on_claim()))

    reported = alone.wait("full", "EngineBuilt", lambda one: "Make room" in one.message)
    before = disk.engines()
    disk.relieve()

    assert not reported.holds
    assert before == []
    alone.wait("full", "EngineBuilt", lambda one: one.holds)
    assert len(complete(disk)) == 1


def test_a_disk_that_fills_up_during_a_build_is_reported(alone: Space, disk: NodeDisk) -> None:
    """A build that runs out of space half way says so and ends entire when there is room again."""
    alone.apply(build_only(alone, "filling", "good", build=on_claim()))
    job = job_of(alone, "filling")
    running_build(alone, job)
    fetched = eventually(lambda: list(disk.files.glob("engines/.work/*/journal.json")), seconds=120)
    assert fetched, "no step has finished"
    disk.fill(free=SPARE_BYTES)

    reported = alone.wait(
        "filling", "EngineBuilt", lambda one: "No space left" in one.message or one.holds
    )
    before = disk.engines()
    disk.relieve()

    assert not reported.holds, "the build was quicker than the fault"
    assert before == []
    alone.wait("filling", "EngineBuilt", lambda one: one.holds)
    assert len(complete(disk)) == 1


def test_a_missing_claim_is_awaited(alone: Space, installed: Installed) -> None:
    alone.apply(build_only(alone, "homeless", "good", build=on_claim("absent")))

    reported = alone.wait(
        "homeless", "EngineBuilt", lambda one: '"absent" not found' in one.message
    )

    assert (reported.status, reported.reason) == ("False", "PodsUnschedulable")
    with (
        node_disk(installed.cluster, "late-store", mebibytes=MEBIBYTES) as disk,
        claimed(installed.cluster, disk, alone.name, "absent"),
    ):
        alone.wait("homeless", "EngineBuilt", lambda one: one.holds)
        assert len(complete(disk)) == 1
        alone.kubectl("delete", "mmm", "homeless", "--timeout=60s")


def cut_short(engine: Path) -> None:
    with (engine / WEIGHTS).open("r+b") as file:
        file.truncate(100)


def lose(engine: Path) -> None:
    (engine / WEIGHTS).unlink()


def flip(engine: Path) -> None:
    data = bytearray((engine / WEIGHTS).read_bytes())
    data[len(data) // 2] ^= 1
    (engine / WEIGHTS).write_bytes(data)


def garble(engine: Path) -> None:
    """Overwrite the manifest with zeros, as a file system after a loss of power may."""
    (engine / MANIFEST_NAME).write_bytes(b"\0" * 64)


@cases(
    "damage said",
    {
        "truncated": (cut_short, "model.safetensors has 100 bytes; expected"),
        "lost": (lose, "model.safetensors is missing"),
        "flipped": (flip, "model.safetensors is damaged: sha256"),
        # The digest of the build is compared before a manifest is read.
        "garbled": (garble, f"{MANIFEST_NAME} is not the manifest of the recorded build"),
    },
)
def test_damaged_engine_is_refused_and_repaired(
    alone: Space, disk: NodeDisk, damage: Callable[[Path], None], said: str
) -> None:
    model = build_only(alone, "damaged", "tiny", build=on_claim())
    alone.apply(model)
    alone.wait("damaged", "EngineBuilt", lambda one: one.holds)
    fingerprint = alone.read("damaged")["status"]["build"]["fingerprint"]
    damage(disk.files / "engines" / fingerprint)
    model["spec"]["replicas"] = 1

    alone.apply(model)

    alone.wait("damaged", "EngineBuilt", lambda one: one.holds and said in one.message)
    built = time.monotonic()
    alone.wait_ready("damaged")
    log.info("Ready %.0f s after the engine was complete again", time.monotonic() - built)
    assert back_offs(alone, "damaged") == []
    assert complete(disk) == [fingerprint]
