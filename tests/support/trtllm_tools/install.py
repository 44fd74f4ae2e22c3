"""Writes the programs of one TensorRT-LLM version into a folder, as an image would hold them."""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_operator.plan.engine.tables import era, flags_of, table, version_of
from mm_runtime.settings import ROOT_VARIABLE
from support.trtllm_tools.options import TOKENIZER_INFO, options_of

STANDIN = Path(__file__).parent / "standin"
LLM_API = STANDIN.with_name("llm_api")
"""Upstream's package, for Triton's model of its LLM API."""

CONVERTERS = ("llama", "qwen", "mllama", "opt", "enc_dec", "whisper")

LAUNCHER = """\
#!/usr/bin/env python3
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[{depth}] / "standin"))
from {module} import main

main("{program}")
"""


@dataclass(frozen=True)
class Tools:
    """One version's programs on disk."""

    root: Path
    """TensorRT-LLM's root: the folder with `examples`."""

    version: str

    @property
    def programs(self) -> Path:
        return self.root / "bin"

    @property
    def packages(self) -> Path:
        """What belongs on PYTHONPATH: metadata of the distributions, and no code."""
        return self.root / "site-packages"

    def environment(self, path: str) -> dict[str, str]:
        return {
            "PATH": f"{self.programs}:{path}",
            "PYTHONPATH": str(self.packages),
            ROOT_VARIABLE: str(self.root),
        }

    def script(self, name: str) -> Path:
        return self.programs / name if "/" not in name else self.root / name


H100 = ("NVIDIA H100 80GB HBM3", "9.0")

_TABLES_SINCE = "0.19.0"
"""The script that writes a tokenizer's table is in images from here on."""


def install(root: Path, version: str, *, python: str = sys.executable) -> Tools:
    tools = Tools(root, version)
    shutil.copytree(STANDIN, root / "standin", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(LLM_API, root / "llm_api", ignore=shutil.ignore_patterns("__pycache__"))
    known = version_of(version)
    where, guided = era(table("tools")["scripts"], known), table("tools")["guided"]
    declared: dict[str, Any] = {"version": version, "programs": {}}
    for name in CONVERTERS:
        path = where["convert"]
        if name in table("tools")["contrib"]:
            path = where.get("contrib", path)
        _launch(root, path.format(name=name), "convert", name)
        declared["programs"][name] = options_of(name, flags_of(name, known))
    _launch(root, table("tools")["quantize"], "quantize", "quantize")
    _launch(root, where["vision"], "vision", "vision")
    if known >= version_of(_TABLES_SINCE):
        _launch(root, guided["script"], "tokenizer_info", "tokenizer-info")
    _launch(root, "bin/trtllm-build", "build", "trtllm-build")
    _launch(root, "bin/trtllm-serve", "serve", "trtllm-serve")
    launches = tools.script("trtllm-llmapi-launch")
    write_program(launches, '#!/bin/sh\nTLLM_SPAWN_PROXY_PROCESS=1 exec "$@"\n')
    for name in ("mpirun", "tritonserver"):  # of no version's table: beside TensorRT-LLM's own
        _launch(root, f"bin/{name}", name, name)
    for name in ("quantize", "vision", "trtllm-build", "trtllm-serve"):
        declared["programs"][name] = options_of(name, flags_of(name, known))
    declared["programs"]["tokenizer-info"] = TOKENIZER_INFO
    (root / "standin" / "options.json").write_text(json.dumps(declared, indent=1))
    # The builder queries the python3 of the tools for versions.
    (root / "bin" / "python3").symlink_to(python)
    # To the image, for the builders of Qwen2-VL and VILA.
    added = (("qwen_vl_utils", "0.0.14"), ("s2wrapper", "0.1"))
    for package, number in (("tensorrt_llm", version), ("tensorrt", "10.10.0.31"), *added):
        folder = tools.packages / f"{package}-{number}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {number}\n"
        )
    (root / "VILA").mkdir()
    write_gpu(tools, *H100)
    return tools


def write_gpu(tools: Tools, name: str, capability: str) -> None:
    write_program(tools.script("nvidia-smi"), f"#!/bin/sh\necho '{name}, {capability}'\n")


def write_program(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _launch(root: Path, path: str, module: str, program: str) -> None:
    depth = len(Path(path).parts) - 1
    write_program(root / path, LAUNCHER.format(depth=depth, module=module, program=program))
