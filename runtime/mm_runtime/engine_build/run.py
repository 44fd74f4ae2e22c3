"""One build, from plan to manifest: the order of things, and what each failure becomes."""

import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from mm_api.contract import ExitCode
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildFailure, BuildProgress, BuildReason, BuildResult
from mm_api.documents.engine_manifest import EngineManifest, StepRecord
from mm_runtime.base import manifest
from mm_runtime.base.durable import sha256, write_durably, writing_to
from mm_runtime.base.engine_python import engine_python
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.abandoned import remove_abandoned
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.forked_steps import ForkedSteps, shared_steps
from mm_runtime.engine_build.journal import Journal
from mm_runtime.engine_build.lock import StoppedWhileWaitingError, locked
from mm_runtime.engine_build.progress import Progress
from mm_runtime.engine_build.runner import StepFailedError, StepRunner, environment_of
from mm_runtime.engine_build.seal import seal
from mm_runtime.engine_build.step import Step
from mm_runtime.engine_build.timing_cache import TimingCache
from mm_runtime.engine_build.tree import link_tree
from mm_runtime.errors import (
    EngineCorruptError,
    RuntimeCommandError,
    StoreNotWritableError,
)
from mm_runtime.settings import STEP_SECONDS, trtllm_root

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Where a build reads and writes."""

    plan: BuildPlan
    source: str
    store: Path
    steps: Callable[[BuildPlan], tuple[Step, ...]] = field(kw_only=True)
    """Makes the steps of a plan, as `mm_runtime.backends.steps`."""
    step_seconds: float = STEP_SECONDS
    """Deadline of one step."""
    trtllm_root: Path = field(default_factory=trtllm_root)
    """Where the image keeps TensorRT-LLM's scripts; read for backend TensorRT only."""
    termination_log: Path | None = None
    """Where it is written how far the build is; the result of an ended build is the caller's."""
    holder: str = ""
    """Who builds, for those that wait for the same engine: namespace and name of a Job."""


def build(options: BuildOptions, stop: StopSignal) -> tuple[BuildResult, ExitCode]:
    """Build an engine, or find it built; never raises for a build that failed."""
    fingerprint = options.plan.fingerprint
    try:
        return _build(options, stop), ExitCode.OK
    except StepFailedError as failed:
        reason, code = _classify(failed)
        message = f"Step {failed.step.name}: {failed.message}"
        failure = build_failure(reason, code, message).model_copy(
            update={
                "step": failed.step.name,
                "exit_code": failed.exit_code,
                "log_tail": failed.log_tail,
            }
        )
    except StoppedWhileWaitingError:
        code = ExitCode.TERMINATED
        failure = build_failure(BuildReason.STEP_FAILED, code, "Stopped while another build ran.")
    except RuntimeCommandError as error:
        code = error.exit_code
        full = isinstance(error, StoreNotWritableError)
        reason = BuildReason.STORE_NOT_WRITABLE if full else BuildReason.STEP_FAILED
        failure = build_failure(reason, code, str(error))
    except OSError as error:
        code = ExitCode.RETRY
        failure = build_failure(
            BuildReason.STEP_FAILED, code, f"{error.strerror}: {error.filename}"
        )
    log.error("%s", failure.message)
    return BuildResult(fingerprint=fingerprint, failure=failure), code


def _build(options: BuildOptions, stop: StopSignal) -> BuildResult:
    paths = BuildPaths.of(options.store, options.plan)
    ordered = options.steps(options.plan)
    with writing_to(options.store):
        for directory in (paths.lock.parent, paths.work.parent):
            directory.mkdir(parents=True, exist_ok=True)
        progress = Progress(options.termination_log, paths.fingerprint)
        with locked(paths.lock, stop, holder=options.holder, waiting=progress.wait):
            if _reusable(paths):
                return _result(paths, (), reused=True)
            records = _run_steps(options, paths, ordered, stop, progress)
            _keep_logs(paths)
            seal(paths, options.plan, records, datetime.now(UTC).replace(microsecond=0))
            shutil.rmtree(paths.work, ignore_errors=True)
            # The store's own clock, by the file just written: builders' clocks may differ.
            now = paths.manifest.stat().st_mtime
            remove_abandoned(paths.work.parent, paths.lock.parent, now=now)
            return _result(paths, records, reused=False)


def _reusable(paths: BuildPaths) -> bool:
    """Return whether the store holds this engine complete; a damaged one is taken away."""
    if not paths.engine.exists():
        return False
    try:
        manifest.verify(paths.engine, manifest.read(paths.manifest))
    except EngineCorruptError as error:
        log.warning("the engine in the store is damaged and is built again: %s", error)
        # Renamed first: a reader sees the directory complete or not at all. Pods that serve from it
        # keep the files they have open.
        broken = paths.work.with_name(f"{paths.fingerprint}.damaged")
        shutil.rmtree(broken, ignore_errors=True)
        paths.engine.rename(broken)
        shutil.rmtree(broken, ignore_errors=True)
        return False
    paths.unused.unlink(missing_ok=True)  # it is needed again: see `store gc`
    log.info("the store holds this engine already: %s", paths.engine)
    return True


def _run_steps(
    options: BuildOptions,
    paths: BuildPaths,
    ordered: Sequence[Step],
    stop: StopSignal,
    progress: Progress,
) -> list[StepRecord]:
    for directory in paths.folders:
        directory.mkdir(parents=True, exist_ok=True)
    if options.plan.trtllm is not None:
        link_tree(paths, options.trtllm_root)
    write_durably(paths.plan, options.plan.to_json(indent=1))
    shared = shared_steps(options.plan, ordered)
    forks = ForkedSteps(engine_python(), shared, environment_of(shared[0])) if shared else None
    runner = StepRunner(options.source, paths, options.step_seconds, stop, progress, forks=forks)
    runner.write_reproduce_script(ordered)
    journal = Journal(paths.journal)
    cache = TimingCache(paths, options.plan)
    cache.copy_in()
    records: list[StepRecord] = []
    with forks or nullcontext():
        for number, step in enumerate(ordered, start=1):
            record = journal.finished(step)
            if record is not None:
                log.info("step %d/%d %s: finished before", number, len(ordered), step.name)
            else:
                log.info("step %d/%d %s: %s", number, len(ordered), step.name, step.purpose)
                progress.publish(
                    BuildProgress(
                        fingerprint=paths.fingerprint,
                        step=step.name,
                        number=number,
                        of=len(ordered),
                        step_seconds={one.name: one.seconds for one in records},
                    )
                )
                try:
                    record = runner.run(step)
                except StepFailedError:
                    cache.discard(step)
                    raise
                cache.keep(step)
                journal.add(step, record)
                log.info(
                    "step %d/%d %s: done in %.1f s, peak memory %d MiB",
                    number,
                    len(ordered),
                    step.name,
                    record.seconds,
                    record.peak_memory_bytes >> 20,
                )
            records.append(record)
    return records


def _keep_logs(paths: BuildPaths) -> None:
    """Put logs, journal and script beside the engine's files: the only trace of how it was made."""
    kept = paths.unfinished / "build"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for path in (*sorted(paths.logs.iterdir()), paths.journal, paths.reproduce):
        shutil.copyfile(path, kept / path.name)


def _result(paths: BuildPaths, records: Sequence[StepRecord], *, reused: bool) -> BuildResult:
    seconds = {record.name: record.seconds for record in records}
    sealed, digest = manifest.read(paths.manifest), sha256(paths.manifest)
    return built(sealed, digest, seconds, reused=reused)


def built(
    engine: EngineManifest, digest: str, step_seconds: dict[str, float], *, reused: bool
) -> BuildResult:
    """Return the result of a build that ended well; `digest`: of the manifest's bytes."""
    return BuildResult(
        fingerprint=engine.fingerprint,
        stored_bytes=sum(file.size for file in engine.files),
        gpu=engine.gpu,
        versions=engine.versions,
        manifest_sha256=digest,
        reused=reused,
        step_seconds=step_seconds,
    )


def _classify(failed: StepFailedError) -> tuple[BuildReason, ExitCode]:
    match failed.exit_code:
        case ExitCode.PERMANENT:
            return failed.step.permanent_reason, ExitCode.PERMANENT
        case ExitCode.WEIGHTS_UNUSABLE:
            return BuildReason.WEIGHTS_INVALID, ExitCode.PERMANENT
        case ExitCode.SOURCE_CHANGED:
            return BuildReason.SOURCE_CHANGED, ExitCode.SOURCE_CHANGED
        case ExitCode.STORE_NOT_WRITABLE:
            return BuildReason.STORE_NOT_WRITABLE, ExitCode.STORE_NOT_WRITABLE
        case ExitCode.TERMINATED:
            return BuildReason.STEP_FAILED, ExitCode.TERMINATED
        case _:
            return BuildReason.STEP_FAILED, ExitCode.RETRY


def build_failure(
    reason: BuildReason, code: ExitCode, message: str, step: str = "prepare"
) -> BuildFailure:
    return BuildFailure(
        reason=reason,
        step=step,
        exit_code=code,
        message=message,
        retryable=code not in {ExitCode.PERMANENT, ExitCode.SOURCE_CHANGED},
    )
