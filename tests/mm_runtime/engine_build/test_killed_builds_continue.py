"""A builder that is killed, or whose disk is full, at any step continues where it was."""

from dataclasses import replace
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason, BuildResult
from mm_api.documents.engine_manifest import StepRecord
from mm_runtime.backends import steps
from mm_runtime.base import manifest as manifests
from mm_runtime.engine_build.journal import Journal
from support.killed_builders import run_builder
from support.small_disk import fill, small_disk
from support.tiny_t5 import CHECKPOINT as TINY_T5
from support.trtllm_sites import TrtllmSite, trtllm_site
from support.trtllm_tools.install import Tools

STORE_BYTES = 8 * 1024 * 1024

STEPS = (
    "check-tools",
    "fetch",
    "verify-weights",
    "convert",
    "build-encoder",
    "build-decoder",
    "processor",
    "verify-engines",
)


def run(site: TrtllmSite, *, kill_at: str = "") -> BuildResult | None:
    """Build in a process of its own; kill it when its log has a line with some words."""
    word = site.store.parent / "termination-log"
    return run_builder(site.arguments, word, environment=site.environment, kill_at=kill_at)


def files_of(site: TrtllmSite) -> dict[str, str]:
    """Return path -> digest of what the engine serves from; logs hold times."""
    manifest = manifests.read(site.paths.manifest)
    manifests.verify(site.paths.engine, manifest)
    return {file.path: file.sha256 for file in manifest.files if not file.path.startswith("build/")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> TrtllmSite:
    site = trtllm_site(tmp_path_factory.mktemp("undisturbed"), tools, "t5", source=TINY_T5)
    result = run(site)
    assert result is not None
    assert result.failure is None
    assert tuple(step.name for step in steps(site.plan)) == STEPS
    return site


@pytest.mark.parametrize(
    ("moment", "killed"),
    [
        pytest.param("[{step}] $ ", STEPS, id="inside"),
        # After the last one only the manifest is left to write.
        pytest.param("{step}: done in", STEPS[:-1], id="boundary", marks=pytest.mark.slow),
    ],
)
def test_killed_at_every_step(
    undisturbed: TrtllmSite, tmp_path: Path, moment: str, killed: tuple[str, ...]
) -> None:
    """One build, killed once in each step: the engine is the same, and no step is repeated."""
    site = replace(undisturbed, store=tmp_path / "store")
    site.store.mkdir()
    finished = _finished(site)
    for step in killed:
        assert run(site, kill_at=moment.format(step=step)) is None
        assert not site.paths.engine.exists()
        found = _finished(site)
        assert found[: len(finished)] == finished
        finished = found
    result = run(site)
    assert result is not None
    assert (result.failure, tuple(result.step_seconds)) == (None, STEPS)
    assert manifests.read(site.paths.manifest).steps[: len(finished)] == finished
    assert len(finished) >= len(STEPS) - 1
    assert files_of(undisturbed) == files_of(site)


def _finished(site: TrtllmSite) -> list[StepRecord]:
    journal = Journal(site.paths.journal)
    return [record for one in steps(site.plan) if (record := journal.finished(one))]


@pytest.mark.slow
def test_disk_full_at_every_step(undisturbed: TrtllmSite, tmp_path: Path) -> None:
    """A full disk is said so, nothing half built is seen, and room is all that is needed."""
    with small_disk(tmp_path / "disk", STORE_BYTES) as disk:
        site = replace(undisturbed, store=disk)
        full: list[str] = []
        for before in ("", *STEPS[:-1]):
            if before:
                run(site, kill_at=f"{before}: done in")
            filler = fill(disk)
            result = run(site)
            assert result is not None
            assert result.failure is not None
            full.append(result.failure.step)
            assert result.failure.reason is BuildReason.STORE_NOT_WRITABLE
            assert result.failure.retryable
            assert not site.paths.engine.exists()
            filler.unlink()
        result = run(site)
        assert result is not None
        assert result.failure is None
        assert files_of(undisturbed) == files_of(site)
    assert len(full) == len(STEPS)


def test_the_exit_code_says_no_room(undisturbed: TrtllmSite, tmp_path: Path) -> None:
    """What the Job sees of a full disk is the code for it."""
    with small_disk(tmp_path / "disk", STORE_BYTES) as disk:
        site = replace(undisturbed, store=disk)
        filler = fill(disk)
        _, code = site.build()
        filler.unlink()
    assert code is ExitCode.STORE_NOT_WRITABLE
