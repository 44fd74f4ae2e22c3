"""Twins of NVIDIA's images: what upstream's list puts there, and where `make twin` made one."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.needs import ROOT

LISTS = ROOT / "tools" / "twins"
ADDED = ROOT / "requirements" / "trtllm-engine.txt"
"""What runtime/Dockerfile.trtllm adds."""

OF_THE_IMAGE = frozenset({"tensorrt", "tensorrt_llm", "triton_python_backend_utils", "served"})
"""Modules that no list of a registry holds: its builder, server, engines and a model's file."""

STANDINS = ROOT / "tests" / "support" / "native" / "packages"


def versions() -> list[str]:
    found = (path.stem for path in LISTS.glob("*.txt") if path.stem != "overrides")
    return sorted(found, key=lambda one: [int(part) for part in one.split(".")], reverse=True)


ALL = ("llava", "llava-onevision", "vila", "blip2-opt", "mllama", "qwen2-vl", "t5", "bart")
KEPT: dict[str, tuple[str, ...]] = {
    "1.2.1": ALL,
    "1.0": ("t5", "bart"),
    "0.21": ("t5",),
    "0.17": (),
}
"""Version -> families whose own answers its transformers computes (4.57, 4.53, 4.51, 4.47).

Attention of decoders could be set there too, before `set_attn_implementation` came; with 4.53 Llama
3.2 Vision then answers otherwise than with any newer version.
"""


def pinned(file: Path) -> dict[str, str]:
    found = re.findall(
        r"^([A-Za-z0-9._-]+)==([^ \\\n]+)", file.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {normalised(name): version for name, version in found}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Twin:
    """The environments of one version."""

    version: str

    @property
    def folder(self) -> Path:
        return ROOT / f".venv-twin-{self.version}"

    @property
    def absent(self) -> str:
        """Return why nothing can run in it; empty: it is there, as its list says."""
        if not self.python("engine").exists():
            return f"no twin of {self.version} is here: make twin VERSION={self.version}"
        return ""

    def python(self, environment: str) -> Path:
        return self.folder / environment / "bin" / "python"

    def run(
        self,
        *arguments: str,
        environment: str = "engine",
        variables: Mapping[str, str] | None = None,
        seconds: float = 240,
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its interpreters, with nothing of this process's environment but PATH."""
        given = {
            "PATH": "/usr/bin:/bin",
            "HOME": "/tmp",
            "PYTHONPATH": str(STANDINS),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "MM_ENGINE_PYTHON": str(self.python("engine")),
        }
        return subprocess.run(
            [str(self.python(environment)), *arguments],
            env={**given, **(variables or {})},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
