"""PURE: what a purpose needs against what is here: one finding a check, in a fixed order."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from mm_runtime.doctor.found import Found, Interpreter
from mm_runtime.doctor.need import Need
from mm_runtime.doctor.report import DoctorReport, Finding, Outcome
from mm_runtime.launch.mps import CONTROL
from mm_runtime.settings import ROOT_VARIABLE
from mm_runtime.sources.address import BUCKET, HUB

OLDEST, NEWEST = (3, 11), (3, 13)
"""Versions of Python that the project supports."""

TRTLLM_IMAGE: Final = "build the image with runtime/Dockerfile.trtllm"
CUDA_IMAGE: Final = "build the image with runtime/Dockerfile.cuda"
CPU_IMAGE: Final = "build the image with runtime/Dockerfile"
FIELDS: Final = "and set spec.build.image and spec.runtime.image to it"
NODE: Final = (
    "install NVIDIA's driver and container toolkit on the node (GPU Operator), and request a GPU"
)


def examine(need: Need, found: Found) -> DoctorReport:
    """Return the report of all checks."""
    return DoctorReport(
        purposes=sorted(need.purposes),
        backend=need.backend.name,
        findings=[one for check in _CHECKS for one in check(need, found)],
    )


def _image(need: Need) -> str:
    if need.backend.uses_trtllm:
        return f"{TRTLLM_IMAGE} {FIELDS}"
    return f"{CUDA_IMAGE if need.gpu else CPU_IMAGE} {FIELDS}"


def _finding(
    name: str,
    *,
    needed: bool,
    found: str,
    holds: bool,
    fix: str,
    concerns: Literal["image", "node"] = "image",
) -> Finding:
    if not needed:
        return Finding(name=name, concerns=concerns, outcome=Outcome.NOT_NEEDED, found=found)
    if holds:
        return Finding(name=name, concerns=concerns, outcome=Outcome.PASS, found=found)
    return Finding(name=name, concerns=concerns, outcome=Outcome.FAIL, found=found, fix=fix)


def _python(need: Need, found: Found) -> Sequence[Finding]:
    """Check the interpreters: that of this command, and that of torch where it is another one."""
    names = {"python": found.own}
    if found.engine.path != found.own.path:
        names["engine-python"] = found.engine
    return [
        _finding(
            name,
            needed=name == "python" or need.purposes != {"inspect"},
            found=_described(one),
            holds=not one.problem and OLDEST <= one.version <= NEWEST,
            fix=f"Python {_version(OLDEST)} to {_version(NEWEST)} that imports mm_runtime is "
            f"needed: {_image(need)}",
        )
        for name, one in names.items()
    ]


def _described(one: Interpreter) -> str:
    said = f" {one.problem}" if one.problem else ""
    return f"{_version(one.version)} {one.path}{said}"


def _version(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _packages(need: Need, found: Found) -> Sequence[Finding]:
    own, engine = found.own.packages, found.engine.packages
    computes = need.builds or (need.serves and need.backend.runs_checkpoints)
    runs = need.onnx and need.purposes != {"inspect"}
    native = need.backend.builds_engines and need.purposes != {"inspect"}
    trtllm = need.builds_engines or (need.serves and need.backend.uses_trtllm)
    rows = (
        ("httpx2", own, need.reads(HUB), "sources of the Hub are read with it"),
        ("huggingface_hub", own, need.reads(HUB), "sources of the Hub are read with it"),
        ("obstore", own, need.reads(BUCKET), "buckets are read with it"),
        ("torch", engine, computes, "weights are read with it"),
        ("transformers", engine, computes, "checkpoints are read with it"),
        ("onnx", engine, need.onnx and need.builds, "the vision tower is checked"),
        ("onnxruntime", engine, runs and not need.tensorrt, "the vision tower is run with it"),
        ("tensorrt", engine, native or need.tensorrt, "vision engines are built and run with it"),
        ("tensorrt_llm", engine, trtllm, "engines are built or served with it"),
    )
    return [
        _finding(
            name,
            needed=needed,
            found=packages.get(name, "(none)"),
            holds=name in packages,
            fix=f"{why}: {_image(need)}",
        )
        for name, packages, needed, why in rows
    ]


def _torch_cuda(need: Need, found: Found) -> Sequence[Finding]:
    return [
        _finding(
            "torch-cuda",
            needed=need.on_gpu,
            found=found.engine.torch_cuda or "(none)",
            holds=bool(found.engine.torch_cuda),
            fix=f"torch has to be a build with CUDA: {_image(need)}",
        )
    ]


def _server(need: Need, found: Found) -> Sequence[Finding]:
    return [
        _finding(
            "tritonserver",
            needed=need.serves and need.backend.uses_triton,
            found=found.server or found.server_problem,
            holds=bool(found.server),
            fix=_image(need),
        ),
        _finding(
            "backend",
            needed=need.serves and need.backend.builds_engines,
            found=found.native_backend or "(none)",
            holds=bool(found.native_backend),
            fix=f"Triton needs the backend tensorrtllm: {_image(need)}",
        ),
    ]


def _programs(need: Need, found: Found) -> Sequence[Finding]:
    rows = (
        ("trtllm-build", need.builds_engines, _image(need)),
        ("trtllm-serve", need.serves and need.backend.stages, _image(need)),
        ("setpriv", need.purposes != {"inspect"}, "install util-linux in the image"),
    )
    return [
        _finding(
            name,
            needed=needed,
            found=found.programs.get(name) or "(none)",
            holds=bool(found.programs.get(name)),
            fix=fix,
        )
        for name, needed, fix in rows
    ]


def _scripts(need: Need, found: Found) -> Sequence[Finding]:
    return [
        _finding(
            "scripts",
            needed=need.builds_engines,
            found=str(found.scripts) if found.scripts else "(none)",
            holds=found.scripts is not None,
            fix="TensorRT-LLM's folder examples is neither in /app/tensorrt_llm nor in /app: set "
            f"{ROOT_VARIABLE} in the image to the folder that holds it, or {_image(need)}",
        )
    ]


def _home(_need: Need, found: Found) -> Sequence[Finding]:
    return [
        _finding(
            "home",
            needed=True,
            found=f"{found.home} (user {found.user_id}, {found.user})",
            holds=found.home_is_writable,
            fix="set HOME to a folder that the user may write, /tmp in a pod",
        ),
    ]


def _node(need: Need, found: Found) -> Sequence[Finding]:
    cuda = found.engine.torch_cuda.partition(".")[0]
    newest = found.driver_cuda
    old = bool(newest and cuda.isdecimal() and newest[0] < int(cuda))
    return [
        _finding(
            "mps",
            needed=need.mps,
            found=found.programs.get(CONTROL) or "(none)",
            holds=bool(found.programs.get(CONTROL)),
            fix=f"{CONTROL} comes with the driver: let the container toolkit show it (driver "
            "capability compute, utility), or set spec.vision.sharing to TimeSlicing",
            concerns="node",
        ),
        _finding(
            "driver",
            needed=need.on_gpu,
            found=f"CUDA {_version(newest)}" if newest else "(none)",
            holds=newest is not None and not old,
            fix=f"torch is built for CUDA {found.engine.torch_cuda}: update the node's driver"
            if old
            else NODE,
            concerns="node",
        ),
        _finding(
            "gpu",
            needed=need.on_gpu,
            found=", ".join(found.gpus) or "(none)",
            holds=bool(found.gpus),
            fix=NODE,
            concerns="node",
        ),
    ]


_CHECKS: tuple[Callable[[Need, Found], Sequence[Finding]], ...] = (
    _python,
    _packages,
    _torch_cuda,
    _server,
    _programs,
    _scripts,
    _home,
    _node,
)
