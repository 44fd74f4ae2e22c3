"""Build the cluster's programs from their pinned Go modules, once, and find them again.

A build's key is the digest of everything that decides its bytes: the module files, the sources,
the Go version, the flags. A changed key builds into a new directory; an old one is never changed.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.errors import DevClusterError, MissingRequirementsError
from mm_devcluster.paths import cache_dir, go_modules_dir

Progress = Callable[[str, str], None]
"""Receives a stage and a detail, for people."""

KUBERNETES_VERSION = "v1.36.3"
_VERSION_PACKAGE = "k8s.io/component-base/version"
BUILD_TIMEOUT = 3600.0  # seconds; measured 3 to 14 minutes on two cores, idle and busy


@dataclass(frozen=True)
class Module:
    """One go.mod and the programs that come out of it."""

    name: str
    """Folder of the module."""
    programs: dict[str, str]
    """Program name to the name that ``go build`` gives its file."""
    packages: tuple[str, ...] = ("tool",)
    """What ``go list`` lists as programs: ``tool`` means every tool of go.mod."""
    link_flags: str = "-s -w"
    cgo: bool = False
    """Whether it is compiled with C: what opens NVML needs it."""


KUBERNETES = Module(
    "kubernetes",
    {
        "etcd": "server",
        "kube-apiserver": "kube-apiserver",
        "kube-controller-manager": "kube-controller-manager",
        "kube-scheduler": "kube-scheduler",
        "kube-proxy": "kube-proxy",
        "kubelet": "kubelet",
        "kubectl": "kubectl",
        "coredns": "coredns",
    },
    ("tool", "./coredns"),
    # Without a version the programs call themselves v0.0.0 and kubectl warns about skew.
    f"-s -w -X {_VERSION_PACKAGE}.gitVersion={KUBERNETES_VERSION}"
    f" -X {_VERSION_PACKAGE}.gitMajor=1 -X {_VERSION_PACKAGE}.gitMinor=36",
)
VERSITYGW = Module("versitygw", {"versitygw": "versitygw"})
KEDA = Module("keda", {"keda-operator": "operator", "keda-adapter": "adapter"})
ENDPOINT_PICKER = Module("endpoint-picker", {"epp": "epp"})
CONTOUR = Module("contour", {"contour": "contour"})
LWS = Module("lws", {"lws": "cmd"})
DEVICE_PLUGIN = Module("device-plugin", {"nvidia-device-plugin": "nvidia-device-plugin"}, cgo=True)
REGISTRY = Module("registry", {"registry": "registry"}, (".",))
CRANE = Module("crane", {"crane": "crane"})
COSIGN = Module("cosign", {"cosign": "cosign"})
PODS = Module("pods", {"pause": "pause", "probe": "probe"}, ("./...",))
MODULES = (
    KUBERNETES,
    VERSITYGW,
    KEDA,
    ENDPOINT_PICKER,
    CONTOUR,
    LWS,
    DEVICE_PLUGIN,
    REGISTRY,
    CRANE,
    COSIGN,
    PODS,
)

CONTROL_PLANE = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
)
NODE = (*CONTROL_PLANE, "kubelet", "kube-proxy", "coredns", "pause")


def module_of(program: str) -> Module:
    """Return the module that builds a program.

    Raises:
        DevClusterError: No module builds a program of that name.
    """
    for module in MODULES:
        if program in module.programs:
            return module
    known = ", ".join(sorted(name for module in MODULES for name in module.programs))
    message = f"no program is called {program!r}; known: {known}"
    raise DevClusterError(message)


def build_key(module: Module, go_version: str, sources: Iterable[tuple[str, bytes]]) -> str:
    """Compute the key of a module's build: 16 hex digits.

    Args:
        module: What is built, and with which flags.
        go_version: Output of ``go env GOVERSION``.
        sources: Name and content of each file in the module's folder.
    """
    digest = hashlib.sha256()
    for part in (go_version, *module.packages, module.link_flags):
        digest.update(part.encode() + b"\0")
    for name, content in sorted(sources):
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]


def is_built(program: str) -> bool:
    """Return whether a program lies in the cache."""
    module = module_of(program)
    return (_target(module) / program).is_file()


def ensure_binaries(names: Iterable[str], on_progress: Progress | None = None) -> dict[str, Path]:
    """Return the path of each program, building the modules that are not in the cache.

    Two callers at once build once: the second waits for the first.

    Raises:
        DevClusterError: A program is unknown, or the build failed (with the end of its output).
        MissingRequirementsError: Something must be built and there is no Go.
    """
    wanted = tuple(names)
    modules = {module.name: module for module in map(module_of, wanted)}
    targets = {name: _target(module) for name, module in modules.items()}
    missing = [modules[name] for name, target in targets.items() if not target.is_dir()]
    for module in missing:
        _ensure_module(module, targets[module.name], on_progress or _ignore)
    return {name: targets[module_of(name).name] / name for name in wanted}


def _ensure_module(module: Module, target: Path, report: Progress) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(target.with_suffix(".lock")):
        if not target.is_dir():
            _build(module, target, report)


def _target(module: Module) -> Path:
    folder = go_modules_dir() / module.name
    sources = [
        (str(path.relative_to(folder)), path.read_bytes())
        for path in folder.rglob("*")
        if path.suffix in {".mod", ".sum", ".go"}
    ]
    return cache_dir() / "binaries" / build_key(module, _go_version(), sources)


def _build(module: Module, target: Path, report: Progress) -> None:
    # Built beside and renamed: a directory under its final name is complete.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{module.name}-") as scratch:
        out = Path(scratch) / "bin"
        out.mkdir()
        report("build", f"downloading the sources of {module.name}")
        packages = _packages(module)
        chosen = [packages[built] for built in module.programs.values()]
        total = len(_go(module, "list", "-deps", *chosen).splitlines())
        compiled = 0

        def count(_package: str) -> None:
            nonlocal compiled
            compiled += 1
            report("build", f"{module.name}: {compiled:,} of {total:,} packages")

        # All in one: while a program is linked, which takes one core, others are compiled.
        link = ["-ldflags", module.link_flags, "-o", f"{out}/"]
        _go(module, "build", "-v", "-buildvcs=false", "-trimpath", *link, *chosen, on_line=count)
        for program, built in module.programs.items():
            (out / built).rename(out / program)
        out.rename(target)


def _packages(module: Module) -> dict[str, str]:
    """Return the import path of each program, by the name that Go gives its file.

    The first call on a machine downloads the module's sources.
    """
    listed = _go(module, "list", "-f", "{{.Target}} {{.ImportPath}}", *module.packages)
    lines = [line.split() for line in listed.splitlines()]
    return {Path(file).name: package for file, package in lines}


def _go(
    module: Module, command: str, *arguments: str, on_line: Callable[[str], None] | None = None
) -> str:
    """Run Go and return what it prints; `on_line` receives each line of its error output."""
    environment = {
        **os.environ,
        "CGO_ENABLED": str(int(module.cgo)),
        "GOFLAGS": "-mod=readonly",
        "GOWORK": "off",
    }
    said: list[str] = []
    with (
        tempfile.TemporaryFile("w+") as printed,
        subprocess.Popen(
            # Compiling is the longest of what runs side by side: everything else goes first.
            ["nice", "-n", "10", "go", command, *arguments],
            cwd=go_modules_dir() / module.name,
            env=environment,
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        timer = threading.Timer(BUILD_TIMEOUT, process.kill)
        timer.start()
        try:
            for line in process.stderr or ():
                said.append(line)
                if on_line is not None:
                    on_line(line)
            process.wait()
        finally:
            timer.cancel()
            process.kill()
        if process.returncode:
            message = f"go {command} of {module.name} failed:\n{''.join(said)[-2000:]}"
            raise DevClusterError(message)
        printed.seek(0)
        return printed.read()


def _go_version() -> str:
    if shutil.which("go") is None:
        missing = "Go 1.26 or newer on PATH: it compiles Kubernetes from its modules"
        raise MissingRequirementsError((missing,))
    # GOTOOLCHAIN decides which Go really compiles, so run it in the folder whose go.mod it obeys.
    go_version = subprocess.run(
        ["go", "env", "GOVERSION"],
        cwd=go_modules_dir() / KUBERNETES.name,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return go_version.stdout.strip()


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ignore(_stage: str, _detail: str) -> None:
    """Receive progress that is not shown."""


if __name__ == "__main__":  # `make demo` compiles while it installs the environment
    ensure_binaries(NODE)
