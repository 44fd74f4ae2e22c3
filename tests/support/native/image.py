"""The image: a folder with a backend `tensorrtllm`, and an environment that holds `tensorrt`."""

import json
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from support.native.templates import template

HERE = Path(__file__).parent


@dataclass(frozen=True)
class NativeImage:
    """What a server of the image finds."""

    backend: Path
    """Folder of the backend `tensorrtllm`."""

    python_bin: Path
    """Folder of `python3` of the image's environment."""

    version: str
    """Of TensorRT-LLM."""

    @property
    def program(self) -> tuple[str, ...]:
        pod = HERE / "program" / "pod.py"
        return (sys.executable, str(pod), str(self.backend), str(self.python_bin))


def make_image(folder: Path, version: str, engines: tuple[str, ...] = ()) -> NativeImage:
    backend = folder / "backends" / "tensorrtllm"
    shutil.copytree(HERE / "backend", backend, ignore=shutil.ignore_patterns("__pycache__"))
    templates = {one: template(one) for one in (version, *engines)}
    (backend / "templates.json").write_text(json.dumps(templates))
    (backend / "VERSION").write_text(version)
    environment = folder / "environment"
    packages = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages /= "site-packages"
    shutil.copytree(HERE / "packages", packages, ignore=shutil.ignore_patterns("__pycache__"))
    own = sysconfig.get_path("purelib")
    (packages / "own.pth").write_text(f"import site; site.addsitedir({own!r})\n")
    (environment / "bin").mkdir()
    (environment / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    home = Path(sys.executable).resolve().parent
    (environment / "pyvenv.cfg").write_text(f"home = {home}\n")
    return NativeImage(backend, environment / "bin", version)
