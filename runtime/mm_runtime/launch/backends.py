"""Where the real tritonserver lies: inside the nvidia-pytriton wheel, used without pytriton."""

import shutil
import sys
import sysconfig
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mm_runtime.errors import PermanentError

BACKEND_FILES = ("libtriton_python.so", "triton_python_backend_utils.py")
STUB = "triton_python_backend_stub"


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


def find_installation() -> Installation:
    """Return the installed server.

    Raises:
        PermanentError: the wheel or libpython is not installed; says what to install.
    """
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
    """Copy the Python backend into a folder of our own.

    The server gives the stub execute permission at every load and fails on a file that another user
    owns, even when the bit is set.
    """
    folder = destination / "python"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in BACKEND_FILES:
        shutil.copyfile(installation.backend / name, folder / name)
    shutil.copy(installation.stub, folder / STUB)
