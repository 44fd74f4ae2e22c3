"""`mm-runtime serve`: verify the engine, prepare its server, run it, drain it."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import psutil

from mm_api.contract import ExitCode
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.server_state import Role
from mm_runtime.base import manifest as manifests
from mm_runtime.base.child_process import ChildProcess
from mm_runtime.base.faults import VARIABLE, Fault, FaultKind
from mm_runtime.base.first_errors import FirstErrors
from mm_runtime.base.needed_files import needed_files
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.errors import (
    GpuMemoryError,
    GpuUnusableError,
    PermanentError,
    ServerFailedError,
    ServerKilledError,
)
from mm_runtime.launch.backends import STUB
from mm_runtime.launch.exposition import Exposition
from mm_runtime.launch.health import State, read_report, read_warm_up_problem
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.phases import drain, wait_until_ready
from mm_runtime.launch.server import Server
from mm_runtime.launch.sharing import Sharing, shared
from mm_runtime.settings import DRAIN_MARGIN_SECONDS, EXIT_SECONDS, Ports


class Stubs:
    """Every stub below a server, as it is now; readable by its descriptor once it has ended.

    Triton 2.51 starts none again that was killed, by the kernel for want of memory for example: it
    says that it is ready, refuses every request with "Stub process ... is not healthy", and never
    ends the streams that were open. So when one dies the server is ended, and restarted.
    """

    def __init__(self, server: int) -> None:
        self._names: dict[int, str] = {}
        """Descriptor -> the name of the model."""

        for pid, name in _stubs_below(server):
            try:
                self._names[os.pidfd_open(pid)] = name
            except ProcessLookupError:  # between two polls; the server's health is checked next
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._names:
            os.close(descriptor)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._names)

    def name(self, descriptor: int) -> str:
        return self._names[descriptor]


def _stubs_below(server: int) -> Iterator[tuple[int, str]]:
    """Yield process id and model of each stub that descends from a process."""
    try:
        found = psutil.Process(server).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    for process in found:
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:  # it has just ended
            continue
        if words and Path(words[0]).name == STUB:
            yield process.pid, Path(words[1]).parent.parent.name  # STUB MODEL/VERSION/model.py ...


log = logging.getLogger(__name__)

STUB_GONE_SECONDS = 1.0
"""Until a server whose model's process is gone counts as one that lives on without it."""


MOST_CRASHES = 3
"""Deaths that end the container: a fourth start would not be luckier, and Kubernetes backs off."""

CRASH_WINDOW_SECONDS = 300.0
"""Deaths with more time between them are separate accidents."""

FIRST_RESTART_SECONDS = 1.0
"""Before the first restart; doubled for each one after it. Its requests have failed already."""


@dataclass(frozen=True, slots=True)
class Crashes:
    """When a server died, in the last `CRASH_WINDOW_SECONDS`."""

    times: tuple[float, ...] = ()

    def after(self, now: float) -> "Crashes":
        """Return these with one more; those that are too long ago are forgotten."""
        return Crashes((*(time for time in self.times if now - time < CRASH_WINDOW_SECONDS), now))

    @property
    def count(self) -> int:
        return len(self.times)

    @property
    def exhausted(self) -> bool:
        return self.count >= MOST_CRASHES

    @property
    def delay_seconds(self) -> float:
        return FIRST_RESTART_SECONDS * (1 << max(self.count - 1, 0))


def serve(options: ServeOptions, prepare: Callable[[ServeOptions, EngineManifest], Server]) -> int:
    """Serve one engine until SIGTERM, by a backend's `prepare_server`; return the exit code.

    Raises:
        EngineCorruptError: a file of the engine is damaged.
        PermanentError: the engine is not the one the serving plan means, or not for this image.
        ServerFailedError: the server was not ready in time, or died too often.
    """
    with StopSignal() as stop:
        engine = _verified_engine(options)
        server = prepare(options, engine)
        with _exposition(options, server) as exposition:
            _supervise(options, server, exposition, stop)
    return ExitCode.OK


def _exposition(options: ServeOptions, server: Server) -> Exposition:
    # An encoder's pod has no gateway.
    port = options.gateway_port if options.role is Role.SERVER else 0
    return Exposition(
        options.ports,
        Ports(metrics=server.metrics.port),
        options.pools,
        options.serving.model,
        page=server.metrics.path,
        ready=lambda: server.state() is State.READY,
        alive=server.is_alive,
        role=options.role,
        evaluation=lambda: read_report(options.ports.probe_host, port),
        warm_up_problem=lambda: read_warm_up_problem(options.ports.probe_host, port),
    )


def _supervise(
    options: ServeOptions, server: Server, exposition: Exposition, stop: StopSignal
) -> None:
    """Run the server until a signal comes; start it again when it dies, as often as allowed."""
    crashes, faults = Crashes(), ServerFaults(options.folder)
    while not stop.is_set:
        errors = FirstErrors()
        # A daemon for each start: what a killed client leaves in the old one stays with it.
        with shared(options.sharing, Path(options.folder / "mps")) as sharing:
            code = _run_once(options, server, exposition, sharing, stop, errors=errors)
        if code is None:
            return
        if not server.restarts:
            raise ServerFailedError(
                f"{server.name} ended unexpectedly with exit code {code}; the container ends,"
                " because processes of its other ranks may still hold their GPUs"
                + errors.quoted(())
            )
        crashes = crashes.after(time.monotonic())
        if crashes.exhausted:
            raise faults.explained(
                ServerFailedError(
                    f"{server.name} ended unexpectedly {crashes.count} times within"
                    f" {CRASH_WINDOW_SECONDS:.0f} s, now with exit code {code}; the container ends"
                    + errors.quoted(())
                )
            )
        if fault := faults.found:
            log.error("%s", fault.message)
        log.warning(
            "%s ended unexpectedly with exit code %d; it is started again in %.0f s",
            server.name,
            code,
            crashes.delay_seconds,
        )
        exposition.restarted()
        stop.wait(crashes.delay_seconds)


def _run_once(
    options: ServeOptions,
    server: Server,
    exposition: Exposition,
    sharing: Sharing,
    stop: StopSignal,
    *,
    errors: FirstErrors,
) -> int | None:
    """Run the server once; return its exit code if it died, else None.

    A signal before it is ready is a death like later ones: Triton's Python backend aborts once in
    a while at its start (boost::interprocess::lock_exception; tensorrtllm_backend #521).
    """
    faults = ServerFaults(options.folder)
    server.clean()
    faults.clear()
    command = server.command
    child = ChildProcess(
        command.argv,
        {**command.environment, **sharing.environment, **faults.environment},
        exposition.watch(partial(_forward, errors)),
        folder=command.folder,
    )
    code: int | None = None
    try:
        if wait_until_ready(child, server, stop, errors, seconds=options.startup_seconds):
            sharing.check()
            exposition.shares(sharing.mode, sharing.problem)
            code = _wait_for_an_end(child, server, stop)
            if code is None:
                drain(
                    child,
                    server,
                    stop,
                    gateway=(options.ports.probe_host, options.gateway_port),
                    seconds=options.serving.gateway.request_timeout_seconds + DRAIN_MARGIN_SECONDS,
                )
    except ServerKilledError as error:
        log.warning("%s", error)
        code = error.code
    except ServerFailedError as error:
        raise faults.explained(error) from error
    finally:
        last = child.stop(EXIT_SECONDS)
        server.clean()
        log.info("%s ended with exit code %d", server.name, last)
    return code


class ServerFaults:
    """What the processes of one server said of their GPU, as the end of the container."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "gpu-fault.json"

    @property
    def environment(self) -> dict[str, str]:
        return {VARIABLE: str(self._path)}

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)

    @property
    def found(self) -> Fault | None:
        return Fault.read(self._path)

    def explained(self, error: ServerFailedError) -> ServerFailedError:
        """Return the error of a server that did not start, with the fault first if there is one."""
        fault = self.found
        if fault is None:
            return error
        kind = GpuMemoryError if fault.kind is FaultKind.OUT_OF_MEMORY else GpuUnusableError
        return kind(f"{fault.message}.\n{error}")


def _wait_for_an_end(child: ChildProcess, server: Server, stop: StopSignal) -> int | None:
    """Return the exit code of a server that ended; None when a signal came first."""
    with Stubs(child.pid) as stubs:
        dead = child.wait_beside(stubs.descriptors, None, stop)
        if dead is None:
            return child.exit_code
        # A server that ends takes its stubs along, and may be a moment behind them.
        if stop.is_set or child.wait(STUB_GONE_SECONDS, stop) is not None or stop.is_set:
            return child.exit_code
        log.error(
            "the process of model %s of %s has died, for want of memory perhaps; the server is"
            " ended, because it would refuse every request and never end open streams",
            stubs.name(dead),
            server.name,
        )
    return child.stop(0)


def _verified_engine(options: ServeOptions) -> EngineManifest:
    engine = manifests.read(options.manifest, options.serving.manifest_sha256)
    if engine.fingerprint != options.serving.fingerprint:
        raise PermanentError(
            f"{options.manifest} is engine {engine.fingerprint[:16]}; the serving plan is for"
            f" {options.serving.fingerprint[:16]}. The wrong store or path is mounted."
        )
    if engine.plan.engine.backend != options.serving.backend:
        raise PermanentError(
            f"{options.manifest} is for backend {engine.plan.engine.backend}; the serving plan says"
            f" {options.serving.backend}."
        )
    began = time.monotonic()
    files = needed_files(engine.files, options.role)
    manifests.verify(options.manifest.parent, engine, files)
    log.info(
        "engine %s verified: %d of %d files in %.1f s",
        engine.fingerprint[:16],
        len(files),
        len(engine.files),
        time.monotonic() - began,
    )
    return engine


def _forward(errors: FirstErrors, line: str) -> None:
    errors.add(line)
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
