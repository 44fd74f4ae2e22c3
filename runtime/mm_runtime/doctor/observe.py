"""Looks at the image and the node. Takes a second: metadata is read, nothing is loaded."""

import ctypes
import getpass
import json
import os
import shutil
import subprocess
import sys
from functools import cache

from mm_runtime.base.engine_python import engine_python
from mm_runtime.base.tool_versions import INSTALLED, QUERY_SECONDS, query
from mm_runtime.doctor.found import Found, Interpreter, Version
from mm_runtime.errors import PermanentError
from mm_runtime.launch.backends import find_installation
from mm_runtime.launch.mps import CONTROL
from mm_runtime.settings import trtllm_root

PACKAGES = (
    "httpx2",
    "huggingface_hub",
    "obstore",
    "onnx",
    "onnxruntime",
    "tensorrt",
    "tensorrt_llm",
    "torch",
    "transformers",
)
PROGRAMS = (CONTROL, "nvidia-smi", "setpriv", "trtllm-build", "trtllm-serve")

_QUESTION = f"""{INSTALLED}
import json, re, sys
from importlib import util
from pathlib import Path
found = {{"version": sys.version_info[:2], "packages": installed({PACKAGES!r})}}
found |= {{"cuda": "", "problem": ""}}
torch = util.find_spec("torch")
if torch and torch.origin:
    text = Path(torch.origin).with_name("version.py").read_text()
    cuda = re.search(r"^cuda\\b[^=]*= '([0-9.]+)'", text, re.MULTILINE)
    found["cuda"] = cuda[1] if cuda else ""
try:
    import mm_api.documents.build_plan, mm_runtime.engine_build.step
except ImportError as error:
    found["problem"] = f"cannot import the project's code: {{error}}"
print(json.dumps(found))
"""

_DRIVER = "libcuda.so.1"


def observe() -> Found:
    """Return what is here."""
    server = native = problem = ""
    try:
        installation = find_installation()
        server = str(installation.server)
        native = str(installation.trtllm_backend or "")
    except PermanentError as error:
        problem = str(error)
    engine = interpreter(engine_python())
    same = engine.path == sys.executable
    root = trtllm_root()
    home = os.environ.get("HOME", "/")
    return Found(
        own=engine if same else interpreter(sys.executable),
        engine=engine,
        programs={name: shutil.which(name) or "" for name in PROGRAMS},
        user=getpass.getuser(),  # the command has named its user before
        user_id=os.getuid(),
        home=home,
        home_is_writable=os.access(home, os.W_OK | os.X_OK),
        server=server,
        server_problem=problem,
        native_backend=native,
        scripts=root if (root / "examples").is_dir() else None,
        driver_cuda=_driver_cuda(),
        gpus=_gpus(),
    )


@cache
def interpreter(path: str) -> Interpreter:
    """Return what an interpreter says of itself; it is started once, which takes half a second."""
    try:
        done = subprocess.run(
            [path, "-c", _QUESTION],
            capture_output=True,
            timeout=QUERY_SECONDS,
            check=True,
            text=True,
        )
        said = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it prints nothing"])[-1]
        return Interpreter(path, problem=f"ends with exit code {error.returncode}: {last}")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Interpreter(path, problem=f"does not run: {error}")
    major, minor = said["version"]
    return Interpreter(path, (major, minor), said["packages"], said["cuda"], said["problem"])


def _driver_cuda() -> Version | None:
    """Return the newest CUDA of the driver; it is not initialised, and no GPU is touched."""
    number = ctypes.c_int()
    try:
        code = ctypes.CDLL(_DRIVER).cuDriverGetVersion(ctypes.byref(number))
    except OSError:
        return None
    return (number.value // 1000, number.value % 1000 // 10) if code == 0 else None


def _gpus() -> tuple[str, ...]:
    if shutil.which("nvidia-smi") is None:
        return ()
    said = query(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]) or ""
    return tuple(line.strip() for line in said.splitlines() if line.strip())
