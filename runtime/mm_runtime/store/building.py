"""A build whose engine goes into a bucket: built in a directory, published when complete."""

import logging
from hashlib import sha256

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason, BuildResult
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.run import BuildOptions, build, build_failure, built
from mm_runtime.errors import EngineBusyError, EngineCorruptError, RuntimeCommandError
from mm_runtime.store.directory import DirectoryStore
from mm_runtime.store.engines import EngineStore, copy_engine, parse_manifest, problems

log = logging.getLogger(__name__)

PUBLISH = "publish"
"""Name of what follows the steps, in reports."""


def build_into(
    store: EngineStore, options: BuildOptions, stop: StopSignal
) -> tuple[BuildResult, ExitCode]:
    """Build an engine into a bucket, or find it there; never raises for a build that failed.

    `options.store` is the directory to work in. What a killed build has left there is used by the
    next one; blobs that were uploaded are not uploaded again.
    """
    fingerprint = options.plan.fingerprint
    try:
        if _reusable(store, fingerprint):
            return _result(store, fingerprint, {}, reused=True), ExitCode.OK
    except RuntimeCommandError as error:
        return _failed(fingerprint, "prepare", error)
    result, code = build(options, stop)
    if result.failure is not None:
        return result, code
    beside = DirectoryStore(options.store)
    try:
        log.info("publishing engine %s into %s", fingerprint, store)
        copy_engine(beside, fingerprint, store)
        published = _result(store, fingerprint, result.step_seconds, reused=False)
    except RuntimeCommandError as error:
        return _failed(fingerprint, PUBLISH, error)
    try:
        beside.remove(fingerprint)
    except EngineBusyError:
        log.info("another process uses the copy in %s: it stays", beside)
    return published, ExitCode.OK


def _reusable(store: EngineStore, fingerprint: str) -> bool:
    if fingerprint not in store.fingerprints():
        return False
    try:
        store.manifest(fingerprint)
    except EngineCorruptError:
        # Of an upload that was cut, or of another builder's that still runs: deleting its files
        # would leave that builder's manifest without them. Each was compared with its digest.
        log.info("the store holds a part of this engine: %s", store)
        return False
    wrong = problems(store, fingerprint)
    if not wrong:
        log.info("the store holds this engine already: %s", store)
        return True
    log.info("the engine in the store is incomplete and is built again: %s", wrong[0])
    # Damaged blobs would count as uploaded.
    store.remove(fingerprint)
    return False


def _result(
    store: EngineStore, fingerprint: str, step_seconds: dict[str, float], *, reused: bool
) -> BuildResult:
    content = store.manifest(fingerprint)
    manifest = parse_manifest(content, fingerprint, str(store))
    return built(manifest, sha256(content).hexdigest(), step_seconds, reused=reused)


def _failed(
    fingerprint: str, step: str, error: RuntimeCommandError
) -> tuple[BuildResult, ExitCode]:
    log.error("%s", error)
    full = error.exit_code is ExitCode.STORE_NOT_WRITABLE
    reason = BuildReason.STORE_NOT_WRITABLE if full else BuildReason.STEP_FAILED
    failure = build_failure(reason, error.exit_code, str(error), step)
    return BuildResult(fingerprint=fingerprint, failure=failure), error.exit_code
