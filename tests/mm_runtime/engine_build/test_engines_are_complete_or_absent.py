"""What lies in the store under an engine's name is verified, complete and built once."""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason, BuildResult, last_progress
from mm_api.documents.engine_manifest import EngineFile
from mm_runtime.base import manifest as manifests
from mm_runtime.base.durable import sha256
from mm_runtime.cli import main
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.errors import EngineCorruptError
from support.build_sites import Site
from support.cases import cases

pytestmark = pytest.mark.usefixtures("quick_builds")

DEADLINE_SECONDS = 60


def run(site: Site, tmp_path: Path) -> tuple[int, BuildResult]:
    message = tmp_path / "message"
    code = main([*site.arguments, "--termination-log", str(message)])
    return code, BuildResult.from_json(message.read_text())


def failure_of(result: BuildResult) -> tuple[BuildReason, str, bool]:
    assert result.failure is not None
    return result.failure.reason, result.failure.step, result.failure.retryable


def test_manifest_covers_every_file(site: Site, tmp_path: Path) -> None:
    code, result = run(site, tmp_path)
    manifest = manifests.read(site.paths.manifest)
    on_disk = [
        EngineFile(
            path=path.relative_to(site.paths.engine).as_posix(),
            size=path.stat().st_size,
            sha256=sha256(path),
        )
        for path in sorted(site.paths.engine.rglob("*"))
        if path.is_file() and path != site.paths.manifest
    ]
    assert (ExitCode.OK, sha256(site.paths.manifest)) == (code, result.manifest_sha256)
    assert on_disk == manifest.files
    assert site.plan == manifest.plan
    manifests.verify(site.paths.engine, manifest)


def test_files_go_where_they_are_looked_for(site: Site, tmp_path: Path) -> None:
    """Weights and config for the language model, tokenizer and images for the processor."""
    run(site, tmp_path)
    found = {
        folder: {path.name for path in (site.paths.engine / folder).iterdir()}
        for folder in ("llm", "processor")
    }
    expected = {
        "llm": {"config.json", "model.safetensors"},
        "processor": {"tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"},
    }
    assert expected == found


def test_nothing_else_stays_in_the_store(site: Site, tmp_path: Path) -> None:
    """The working directory goes with success; the lock file stays, for the next one to lock."""
    run(site, tmp_path)
    left = {path.name for path in (site.store / "engines").iterdir()}
    assert left == {site.plan.fingerprint, ".locks", ".work"}
    assert list((site.store / "engines" / ".work").iterdir()) == []


def test_finished_engine_is_reused(site: Site, tmp_path: Path) -> None:
    _, first = run(site, tmp_path)
    before = site.paths.manifest.stat().st_mtime_ns
    code, second = run(site, tmp_path)
    assert (code, second.reused, second.step_seconds) == (ExitCode.OK, True, {})
    assert first.manifest_sha256 == second.manifest_sha256
    assert before == site.paths.manifest.stat().st_mtime_ns


@cases(
    "name content words",
    {
        "size": ("llm/config.json", b"{}", "has 2 bytes; expected"),
        "content": (
            "processor/preprocessor_config.json",
            b'{"do_resize": null}',
            "is damaged: sha256",
        ),
        "file-missing": ("llm/model.safetensors", None, "is missing"),
        "manifest-cut": ("manifest.json", b'{"format', "damaged or of another"),
        "manifest-missing": ("manifest.json", None, "does not exist"),
    },
)
def test_damaged_engine_is_named_and_built_again(
    site: Site, tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    run(site, tmp_path)
    damaged = site.paths.engine / name
    if content is None:
        damaged.unlink()
    else:
        damaged.write_bytes(content)
    with pytest.raises(EngineCorruptError, match=words) as caught:
        manifests.verify(site.paths.engine, manifests.read(site.paths.manifest))
    assert str(damaged) in str(caught.value)
    code, result = run(site, tmp_path)
    assert (code, result.reused) == (ExitCode.OK, False)
    manifests.verify(site.paths.engine, manifests.read(site.paths.manifest))


def test_changed_checkpoint_is_not_built(site: Site, tmp_path: Path) -> None:
    (site.source / "tokenizer.json").write_text('{"new": true}')
    code, result = run(site, tmp_path)
    assert (code, failure_of(result)) == (
        ExitCode.SOURCE_CHANGED,
        (BuildReason.SOURCE_CHANGED, "fetch", False),
    )
    assert not site.paths.engine.exists()


def test_vanished_checkpoint_is_permanent(site: Site, tmp_path: Path) -> None:
    """A checkpoint that has gone since it was inspected is not waited for."""
    site.source.rename(tmp_path / "elsewhere")
    code, result = run(site, tmp_path)
    assert (code, failure_of(result)) == (
        ExitCode.PERMANENT,
        (BuildReason.SOURCE_NOT_FOUND, "fetch", False),
    )


def test_store_that_cannot_be_written(site: Site, tmp_path: Path) -> None:
    site.store.rmdir()
    site.store.symlink_to("/sys")  # takes no directories from anyone, root included
    code, result = run(site, tmp_path)
    assert result.failure is not None
    assert (code, result.failure.reason, result.failure.retryable) == (
        ExitCode.STORE_NOT_WRITABLE,
        BuildReason.STORE_NOT_WRITABLE,
        True,
    )
    assert str(site.store) in result.failure.message


def test_leftovers_of_another_attempt_are_not_mixed_in(site: Site, tmp_path: Path) -> None:
    for folder in (site.paths.llm, site.paths.processor):
        folder.mkdir(parents=True)
    (site.paths.llm / "stranger.safetensors").write_bytes(b"x")
    (site.paths.llm / "model.safetensors.partial").write_bytes(b"x")
    size = (site.source / "tokenizer.json").stat().st_size
    (site.paths.processor / "tokenizer.json").write_bytes(b"y" * size)
    code, _ = run(site, tmp_path)
    manifest = manifests.read(site.paths.manifest)
    names = {file.path for file in manifest.files if not file.path.startswith("build/")}
    assert code == ExitCode.OK
    assert not {name for name in names if "stranger" in name or "partial" in name}
    copied = (site.paths.engine / "processor" / "tokenizer.json").read_bytes()
    assert copied == (site.source / "tokenizer.json").read_bytes()


def test_unreadable_plan_is_permanent(site: Site, tmp_path: Path) -> None:
    plan = tmp_path / "broken.json"
    plan.write_text("{}")
    message = tmp_path / "message"
    where = ["--source", str(site.source), "--store", str(site.store)]
    code = main(["build", "--plan", str(plan), *where, "--termination-log", str(message)])
    assert code == ExitCode.PERMANENT
    assert f"{plan} is not a BuildPlan: " in message.read_text()


def test_progress_is_one_line_of_the_log(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run(site, tmp_path)
    found = last_progress("\n".join(caplog.messages))
    assert found is not None
    assert (found.step, found.number, found.of) == ("fetch", 1, 1)


def test_the_result_reports_size_and_versions(site: Site, tmp_path: Path) -> None:
    _, first = run(site, tmp_path)
    _, second = run(site, tmp_path)
    size = sum(file.size for file in manifests.read(site.paths.manifest).files)
    assert [first.stored_bytes, second.stored_bytes] == [size, size]
    assert "python" in second.versions


def test_one_builder_at_a_time(site: Site, tmp_path: Path) -> None:
    site.paths.lock.parent.mkdir(parents=True)
    descriptor = os.open(site.paths.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, b"other/engine-1")
    command = [sys.executable, "-m", "mm_runtime", *site.arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as second:
        try:
            _wait_for_line(second, b'"waitingFor":"other/engine-1"')
            assert not site.paths.engine.exists()
            os.close(descriptor)
            output, _ = second.communicate(timeout=DEADLINE_SECONDS)
        finally:
            second.kill()
    assert (second.returncode, BuildResult.from_json(output).reused) == (0, False)
    assert run(site, tmp_path)[1].reused


def _wait_for_line(process: "subprocess.Popen[bytes]", words: bytes) -> None:
    assert process.stderr is not None
    assert any(words in line for line in process.stderr), "the build ended"


def test_termination_message_fits(site: Site) -> None:
    from mm_api.documents.build_result import BuildFailure  # noqa: PLC0415
    from mm_runtime.engine_build.progress import build_report  # noqa: PLC0415

    failure = BuildFailure(
        reason=BuildReason.STEP_FAILED,
        step="fetch",
        exit_code=1,
        message="m" * 9000,
        log_tail=[f"{number} " + "ü" * 2000 for number in range(40)],
        retryable=True,
    )
    result = BuildResult(fingerprint=site.plan.fingerprint, failure=failure)
    short = failure.model_copy(update={"message": "m"})
    kept = BuildResult.from_json(build_report(result.model_copy(update={"failure": short})))
    assert len(build_report(result).encode()) <= 4096
    assert kept.failure is not None
    assert kept.failure.log_tail[-1].startswith("39 ")  # the newest lines stay


@cases(
    "age_hours held stays",
    {
        "young": (1, False, True),
        "old-and-building": (48, True, True),
        "old-and-abandoned": (48, False, False),
    },
)
def test_abandoned_work_is_removed(
    site: Site, tmp_path: Path, age_hours: int, *, held: bool, stays: bool
) -> None:
    """What a build of another plan has left goes after a day, unless someone still builds it."""
    other = BuildPaths(site.store, "e" * 64)
    other.llm.mkdir(parents=True)
    other.lock.parent.mkdir(parents=True)
    then = time.time() - age_hours * 3600
    os.utime(other.work, (then, then))
    with other.lock.open("w") as lock:
        if held:
            fcntl.flock(lock, fcntl.LOCK_EX)
        run(site, tmp_path)
    assert stays == other.work.exists()
