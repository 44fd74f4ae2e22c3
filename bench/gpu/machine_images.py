"""Images of this machine's own programs: its system, its Python packages, our code on top.

For a machine without a network, where no image can be pulled: what `runtime/Dockerfile.cuda` takes
from Ubuntu and the package index is packed from what is installed, into layers like the demo's.
"""

import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dockerfile import RECORD, built, hints_of
from gpu_record import ROOT

from mm_devcluster.images.base import ACCOUNTS
from mm_devcluster.images.catalogue import (
    OPERATOR,
    REGISTRY,
    RUNTIME,
    VARIABLES,
    Recipe,
    compose,
)
from mm_devcluster.images.layers import built_layer
from mm_devcluster.images.oci import (
    Entry,
    Image,
    ImageConfig,
    Layer,
    build_image,
    tree_entries,
    write_layer,
)
from mm_devcluster.images.sources import LIBRARY, VENV
from mm_devcluster.node.gpus import DRIVER

CUDA = ROOT / "runtime" / "Dockerfile.cuda"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE = f"{VENV}/lib/{PYTHON}/site-packages"
SYSTEM = (
    *("bin", "etc", "lib", "lib64", "opt/gcc", "sbin", "usr/bin", "usr/include", "usr/lib/gcc"),
    *(f"usr/lib/{PYTHON}", "usr/lib/python3", "usr/lib/x86_64-linux-gnu", "usr/lib64"),
    *("usr/libexec/gcc", "usr/sbin", "usr/share/ca-certificates"),
)
"""Of the machine's file system; gcc and headers for torch's kernel compiler."""
LARGE = ("libcudnn", "libnccl", "libcublas", "libcusolver", "libcusparse", "libcufft", "libnpp")
"""Libraries of the machine that torch brings along: not taken twice."""

LINKED = ("libgcc.a", "libc_nonshared.a")
"""Archives that gcc links into everything: all others are left out."""

HEAVY = ("torch", "nvidia", "triton")
"""A layer each: they are packed side by side."""
UNUSED = (
    *("jax", "cupy", "numba", "llvmlite", "pyarrow", "cv2", "opencv", "pandas", "tensorstore"),
    *("scipy", "statsmodels", "sklearn", "skimage", "scikit", "matplotlib", "cmake", "xarray"),
    *("fonttools", "tensorboard", "cython", "pip", "e3nn", "plotly", "debugpy"),
)
"""Packages of the machine that nothing here imports; those of our pins are in a folder before."""

CODE = ("crds/mm_api", "edge/mm_edge", "runtime/mm_runtime", "operator/mm_operator")
COMMANDS = {"mm-operator": "mm_operator.__main__", "mm-runtime": "mm_runtime.cli"}
COMMANDS |= {"mm-router": "mm_router.__main__"}


def system_entries() -> Iterator[Entry]:
    """Yield the machine's programs and libraries, without documents and CUDA's toolkit."""
    for name in SYSTEM:
        top = Path("/") / name
        if top.is_symlink():
            yield Entry(f"/{name}", link=str(top.readlink()))
            continue
        for entry in tree_entries(top, f"/{name}") if top.is_dir() else ():
            file = entry.path.rpartition("/")[2]
            large = file.startswith(LARGE) or (file.endswith(".a") and file not in LINKED)
            if entry.path in ACCOUNTS:
                text = Path(entry.path).read_text() + ACCOUNTS[entry.path]
                yield Entry(entry.path, content=text.encode())
            elif not large and not entry.path.startswith("/etc/ssl/private"):
                yield entry
    yield Entry("/tmp", directory=True, mode=0o1777)  # noqa: S108 - a path inside the image


def package_entries(
    folder: Path,
    before: Collection[str] = (),
    *,
    only: tuple[str, ...] = ("",),
    without: tuple[str, ...] = (),
) -> Iterator[Entry]:
    """Yield the packages of a folder.

    Args:
        folder: site-packages.
        before: names that another folder has; they are left out here.
        only: beginnings of the names that are taken.
        without: beginnings of those among them that are left out.
    """
    for top in sorted(folder.iterdir()):
        name = normal(top.name)
        taken = name.startswith(only) and not name.startswith(without)
        if not taken or name in before or top.suffix == ".pth":
            continue
        if top.is_dir():
            # triton's headers are those that its launchers are compiled with, in the pod.
            skip = ("__pycache__",) if name == "triton" else ("__pycache__", "include")
            yield from tree_entries(top, f"{SITE}/{top.name}", skip=skip)
        else:
            yield Entry(f"{SITE}/{top.name}", source=top)


def normal(name: str) -> str:
    """Return the name of a package or of what belongs to it, without its version."""
    lower = name.lower().replace("_", "-")
    suffix = ".dist-info"
    return lower.removesuffix(suffix).rpartition("-")[0] if lower.endswith(suffix) else lower


def code_entries() -> Iterator[Entry]:
    """Yield an environment of the machine's interpreter, our packages and their commands."""
    yield Entry(f"{VENV}/pyvenv.cfg", content=b"home = /usr/bin\n")
    for name, target in (
        (PYTHON, f"/usr/bin/{PYTHON}"),
        ("python3", PYTHON),
        ("python", PYTHON),
    ):
        yield Entry(f"{VENV}/bin/{name}", link=target)
    for package in (*CODE, "router/mm_router"):
        where = f"{LIBRARY}/{package.partition('/')[2]}"
        yield from tree_entries(ROOT / package, where, skip=("__pycache__",))
    yield Entry(f"{SITE}/multimodal-operator.pth", content=f"{LIBRARY}\n".encode())
    project = "Metadata-Version: 2.4\nName: multimodal-operator\nVersion: 1\n"
    yield Entry(f"{SITE}/multimodal_operator-1.dist-info/METADATA", content=project.encode())
    for name, module in COMMANDS.items():
        text = f"#!{VENV}/bin/python\nimport sys\n\nfrom {module} import main\n\nsys.exit(main())\n"
        yield Entry(f"{VENV}/bin/{name}", content=text.encode(), mode=0o755)


def tensorrt_entries(folder: Path) -> Iterator[Entry]:
    """Yield TensorRT: `lib` with its libraries, `site` with its Python modules."""
    yield from tree_entries(folder / "lib", "/opt/tensorrt/lib")
    yield from tree_entries(folder / "site", SITE, skip=("__pycache__",))


def own_packages() -> Path:
    """Return the folder of this interpreter's packages."""
    found = find_spec("torch")
    assert found is not None, "torch is not installed here"
    assert found.origin is not None
    return Path(found.origin).parents[1]


def make_images(
    pinned: Path | None, tensorrt: Path | None, *, dockerfile: bool = False
) -> tuple[dict[str, Image], dict[str, Any]]:
    """Return operator and runtime by name, and what is to be recorded.

    They are of the same layers, but where the runtime is of a Dockerfile: then code, commands,
    environment and user are what its steps made, above the layers of the packages.

    Args:
        pinned: folder of packages that go before the machine's own, such as numpy below 2.
        tensorrt: folder of TensorRT, if the image is to have it.
        dockerfile: whether the steps of runtime/Dockerfile.cuda make the runtime.
    """
    own = own_packages()
    before = {normal(one.name) for one in pinned.iterdir()} if pinned else set()
    parts: dict[str, Callable[[], Iterator[Entry]]] = {
        "machine-system": system_entries,
        "machine-packages": lambda: package_entries(own, before, without=(*HEAVY, *UNUSED)),
    }
    for one in HEAVY:
        parts[f"machine-{one}"] = partial(package_entries, own, before, only=(one,))
    if pinned:
        parts["machine-pinned"] = lambda: package_entries(pinned)
    if tensorrt:
        parts["machine-tensorrt"] = lambda: tensorrt_entries(tensorrt)
    parts["machine-code"] = code_entries

    def made(name: str) -> Layer:
        return built_layer(name, lambda path, _: write_layer(parts[name](), path))

    with ThreadPoolExecutor() as pool:
        stepped = pool.submit(from_dockerfile, (pinned, own)) if dockerfile else None
        layers = list(pool.map(made, parts))
    driver = {
        "LD_LIBRARY_PATH": f"{DRIVER}/lib64:/opt/tensorrt/lib",
        "PATH": f"{VARIABLES['PATH']}:{DRIVER}/bin:/opt/gcc/bin",
        # The container toolkit writes the linker's cache again; here it is the machine's.
        "TRITON_LIBCUDA_PATH": f"{DRIVER}/lib64",
    }
    found = {
        one.name: compose(
            Recipe(one.name, one.environment, one.entrypoint, driver, code=one.code), layers
        )
        for one in (OPERATOR, RUNTIME)
    }
    if stepped is None:
        return found, {}
    try:
        top, config, record = stepped.result()
    except Exception:  # noqa: BLE001 - the main job continues with the machine's layers
        traceback.print_exc()
        return found, {"error": traceback.format_exc()[-2000:]}
    # The container toolkit's and apt's part.
    path = f"{config.environment['PATH']}:{DRIVER}/bin:/opt/gcc/bin"
    environment = {**config.environment, **driver, "PATH": path}
    reference = f"{REGISTRY}/{RUNTIME.name}:{top.diff_id.rpartition(':')[2][:12]}"
    of_file = replace(config, environment=environment)
    found[RUNTIME.name] = build_image(reference, of_file, [*layers[:-1], top])
    return found, record


def from_dockerfile(folders: Sequence[Path | None]) -> tuple[Layer, ImageConfig, dict[str, Any]]:
    """Return what the steps of runtime/Dockerfile.cuda wrote, how it is run, and their record.

    The packages of the folders are in layers of their own: of the environment, only what else lies
    there is taken.
    """
    packed = tuple(str(one) for one in folders if one)
    with tempfile.TemporaryDirectory(prefix="dockerfile-", dir="/dev/shm") as name:
        scratch = Path(name)
        stage, record = built(CUDA, scratch, hints=hints_of(folders, None, None), python=PYTHON)

        def entries() -> Iterator[Entry]:
            for upper in reversed(stage.uppers):
                for one in tree_entries(upper):
                    linked = one.link is not None and one.link.startswith(packed)
                    if not linked and one.path != f"/{RECORD}":
                        yield one

        key = f"machine-dockerfile-{time.time_ns()}"
        top = built_layer(key, lambda path, _: write_layer(entries(), path))
    config = ImageConfig(
        entrypoint=stage.entrypoint, environment=stage.environment, user=stage.user
    )
    return top, config, record
