"""Where the real tritonserver lies: NVIDIA's container, or the nvidia-pytriton wheel.

The wheel is used without pytriton, and has no backend for TensorRT-LLM.
"""

import shutil
import sys
import sysconfig
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mm_runtime.base.engine_python import engine_python
from mm_runtime.errors import PermanentError

BACKEND_FILES = ("libtriton_python.so", "triton_python_backend_utils.py")
STUB = "triton_python_backend_stub"
NATIVE = "tensorrtllm"


@dataclass(frozen=True, slots=True)
class Installation:
    """Paths of one installed server."""

    server: Path
    backend: Path
    """Folder of the Python backend as the wheel holds it."""

    stub: Path
    """The backend's child program for this Python's version."""

    caches: Path
    libraries: Path
    """The wheel's own shared libraries: the copied stub does not find them by itself, and then the
    server neither exits nor listens."""

    python_libraries: Path
    """Folder of libpython, which the stub embeds: another one loads, then fails to import ssl."""

    python_bin: Path
    """The environment's bin folder: first on PATH, the stub finds the packages through it."""

    trtllm_backend: Path | None = None
    """Folder of TensorRT-LLM's own backend; None: this server cannot run such engines."""


CONTAINER = Path("/opt/tritonserver")
"""Where NVIDIA's images of Triton hold it."""


def find_installation(root: Path = CONTAINER) -> Installation:
    """Return the container's server, or the wheel's where this is no such container.

    Raises:
        PermanentError: the wheel or libpython is not installed; says what to install.
    """
    if (root / "bin" / "tritonserver").is_file():
        return _container(root)
    return _wheel()


def _container(root: Path) -> Installation:
    backends = root / "backends"
    native = backends / NATIVE
    return Installation(
        server=root / "bin" / "tritonserver",
        backend=backends / "python",
        stub=backends / "python" / STUB,
        caches=root / "caches",
        libraries=root / "lib",
        python_libraries=Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib"),
        python_bin=Path(engine_python()).parent,
        trtllm_backend=native if native.is_dir() else None,
    )


def _wheel() -> Installation:
    spec = find_spec("pytriton")  # not imported: that would start threads and check the GPU
    if spec is None or not spec.submodule_search_locations:
        raise PermanentError("nvidia-pytriton is not installed: tritonserver comes with it.")
    package = Path(next(iter(spec.submodule_search_locations)))
    root = package / "tritonserver"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    library = sysconfig.get_config_var("INSTSONAME") or f"libpython{version}.so.1.0"
    folder = Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")
    found = Installation(
        server=root / "bin" / "tritonserver",
        backend=root / "backends" / "python",
        stub=root / "python_backend_stubs" / version / STUB,
        caches=root / "caches",
        libraries=package.parent / "nvidia_pytriton.libs",
        python_libraries=folder,
        python_bin=Path(sys.executable).parent,
    )
    for path, advice in (
        (found.server, "install nvidia-pytriton with pip, which keeps the executable bit"),
        (found.stub, f"this wheel has no stub for Python {version}"),
        (found.libraries, "the wheel is incomplete"),
        (
            folder / library,
            f"install the distribution's lib{Path(library).name[3:].split('.so')[0]}",
        ),
    ):
        if not path.exists():
            raise PermanentError(f"{path} does not exist: {advice}.")
    return found


def copy_backends(installation: Installation, destination: Path) -> None:
    """Copy the Python backend into a folder of our own; TensorRT-LLM's stays where it is.

    The server gives the stub execute permission at every load and fails on a file that another user
    owns, even when the bit is set.
    """
    folder = destination / "python"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in BACKEND_FILES:
        shutil.copyfile(installation.backend / name, folder / name)
    shutil.copy(installation.stub, folder / STUB)
    link = destination / NATIVE
    link.unlink(missing_ok=True)
    if installation.trtllm_backend is not None:
        link.symlink_to(installation.trtllm_backend, target_is_directory=True)
