"""A program is built once for each set of sources, flags and Go version."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mm_devcluster import binaries
from mm_devcluster.errors import DevClusterError, MissingRequirementsError

SOURCES = (("go.mod", b"module x\n"), ("main.go", b"package main\n"))


@pytest.mark.parametrize(
    ("version", "module", "sources"),
    [
        ("go1.27", binaries.PODS, SOURCES),
        ("go1.26", binaries.VERSITYGW, SOURCES),
        ("go1.26", binaries.PODS, (("go.mod", b"module y\n"), SOURCES[1])),
        ("go1.26", binaries.PODS, SOURCES[:1]),
    ],
    ids=["go-version", "package", "content", "missing-file"],
)
def test_whatever_decides_the_bytes_changes_the_key(
    version: str, module: binaries.Module, sources: tuple[tuple[str, bytes], ...]
) -> None:
    key = binaries.build_key(binaries.PODS, "go1.26", SOURCES)
    assert binaries.build_key(module, version, sources) != key


def test_the_order_of_files_does_not_change_the_key() -> None:
    """Directory order differs between machines."""
    keys = {
        binaries.build_key(binaries.PODS, "go1.26", order) for order in (SOURCES, SOURCES[::-1])
    }
    assert len(keys) == 1


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DevClusterError, match=r"known: contour, coredns, cosign, .*kube-apiserver"):
        binaries.ensure_binaries(["kubeadm"])


def test_missing_go_is_reported_with_a_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirementsError, match=r"(?s)Go 1\.26.*CLUSTER=current"):
        binaries.ensure_binaries(["pause"])


@pytest.mark.cluster
def test_a_build_is_announced_once(tmp_path: Path) -> None:
    """Once it is there, nothing is said."""
    command = [sys.executable, "-m", "mm_devcluster", "build", "pause", "probe"]
    environment = {**os.environ, "MM_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=280, check=True
        )
        for _ in range(2)
    )

    announced = [line.split("s  ", 1)[1] for line in first.stderr.splitlines()]
    assert announced[0] == "downloading the sources of pods"
    assert second.stderr == ""
    assert first.stdout == second.stdout
    assert all(os.access(path, os.X_OK) for path in first.stdout.splitlines())
