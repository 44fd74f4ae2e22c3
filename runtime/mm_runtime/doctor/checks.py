"""PURE: what a purpose needs against what is here: one finding a check, in a fixed order."""

from collections.abc import Iterator
from typing import Final, Literal

from mm_runtime.doctor.found import Found
from mm_runtime.doctor.need import Need
from mm_runtime.doctor.report import DoctorReport, Finding, Outcome
from mm_runtime.launch.mps import CONTROL
from mm_runtime.settings import ROOT_VARIABLE
from mm_runtime.sources.address import ARCHIVE, BUCKET, HUB

OLDEST, NEWEST = (3, 11), (3, 13)
"""Versions of Python that the project supports."""

TRTLLM_IMAGE: Final = "build the image with runtime/Dockerfile.trtllm"
CUDA_IMAGE: Final = "build the image with runtime/Dockerfile.cuda"
CPU_IMAGE: Final = "build the image with runtime/Dockerfile"
FIELDS: Final = "and set spec.build.image and spec.runtime.image to it"
NODE: Final = (
    "install NVIDIA's driver and container toolkit on the node (GPU Operator), and request a GPU"
)


def _check(
    name: str,
    found: str,
    fix: str,
    *,
    needed: bool,
    holds: bool | None = None,
    concerns: Literal["image", "node"] = "image",
    shown: str = "(none)",
) -> Finding:
    """Return what became of one check.

    `found`: what is here; empty: nothing, and `shown` is said. `holds`: None: anything was found.
    """
    holds = bool(found) if holds is None else holds
    outcome = Outcome.PASS if holds else Outcome.FAIL
    return Finding(
        name=name,
        concerns=concerns,
        outcome=outcome if needed else Outcome.NOT_NEEDED,
        found=found or shown,
        fix=fix if needed and not holds else "",
    )


def examine(need: Need, found: Found) -> DoctorReport:
    checks = (_pythons, _packages, _programs, _node)
    return DoctorReport(
        purposes=sorted(need.purposes),
        backend=need.backend.name,
        findings=[one for check in checks for one in check(need, found, _image(need))],
    )


def _image(need: Need) -> str:
    if need.backend.uses_trtllm:
        return f"{TRTLLM_IMAGE} {FIELDS}"
    return f"{CUDA_IMAGE if need.gpu else CPU_IMAGE} {FIELDS}"


def _pythons(need: Need, found: Found, image: str) -> Iterator[Finding]:
    """Yield the interpreters: that of this command, and that of torch where it is another one."""
    names = {"python": found.own}
    if found.engine.path != found.own.path:
        names["engine-python"] = found.engine
    for name, one in names.items():
        said = f" {one.problem}" if one.problem else ""
        yield _check(
            name,
            f"{_version(one.version)} {one.path}{said}",
            f"Python {_version(OLDEST)} to {_version(NEWEST)} that imports mm_runtime is "
            f"needed: {image}",
            needed=name == "python" or need.works,
            holds=not one.problem and OLDEST <= one.version <= NEWEST,
        )


def _version(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _packages(need: Need, found: Found, image: str) -> Iterator[Finding]:
    own, engine = found.own.packages, found.engine.packages
    computes = need.builds or (need.serves and need.backend.runs_checkpoints)
    runs = need.onnx and need.works
    native = need.backend.builds_engines and need.works
    tensorrt = "vision engines are built and run with it"
    if need.tensorrt and not native:
        tensorrt += ", and runtime/Dockerfile.cuda has none: add it (docs/design/serving.md)"
    trtllm = need.builds_engines or (need.serves and need.backend.uses_trtllm)
    for name, packages, needed, why in (
        ("httpx2", own, need.reads(HUB) or need.reads(ARCHIVE), "sources are fetched with it"),
        ("huggingface_hub", own, need.reads(HUB), "sources of the Hub are read with it"),
        ("obstore", own, need.reads(BUCKET), "buckets are read with it"),
        ("torch", engine, computes, "weights are read with it"),
        ("transformers", engine, computes, "checkpoints are read with it"),
        ("onnx", engine, need.onnx and need.builds, "the vision tower is checked"),
        ("onnxruntime", engine, runs and not need.tensorrt, "the vision tower is run with it"),
        ("tensorrt", engine, native or need.tensorrt, tensorrt),
        ("tensorrt_llm", engine, trtllm, "engines are built or served with it"),
    ):
        yield _check(name, packages.get(name, ""), f"{why}: {image}", needed=needed)
    fix = f"torch has to be a build with CUDA: {image}"
    yield _check("torch-cuda", found.engine.torch_cuda, fix, needed=need.on_gpu)


def _programs(need: Need, found: Found, image: str) -> Iterator[Finding]:
    programs, backend, serves = found.programs, need.backend, need.serves
    problem, triton = found.server_problem, serves and backend.uses_triton
    yield _check("tritonserver", found.server, image, needed=triton, shown=problem)
    yield _check(
        "backend",
        found.native_backend,
        f"Triton needs the backend tensorrtllm: {image}",
        needed=serves and backend.builds_engines,
    )
    serve = serves and backend.uses_trtllm and not backend.uses_triton
    for name, needed, fix in (
        ("trtllm-build", need.builds_engines, image),
        ("trtllm-serve", serve, image),
        ("setpriv", need.works, "install util-linux in the image"),
    ):
        yield _check(name, programs.get(name, ""), fix, needed=needed)
    yield _check(
        "scripts",
        str(found.scripts or ""),
        "TensorRT-LLM's folder examples is neither in /app/tensorrt_llm nor in /app: set "
        f"{ROOT_VARIABLE} in the image to the folder that holds it, or {image}",
        needed=need.builds_engines,
    )
    yield _check(
        "home",
        f"{found.home} (user {found.user_id}, {found.user})",
        "set HOME to a folder that the user may write, /tmp in a pod",
        needed=True,
        holds=found.home_is_writable,
    )


def _node(need: Need, found: Found, _image: str) -> Iterator[Finding]:
    cuda = found.engine.torch_cuda.partition(".")[0]
    newest = found.driver_cuda
    old = bool(newest and cuda.isdecimal() and newest[0] < int(cuda))
    yield _check(
        "mps",
        found.programs.get(CONTROL, ""),
        f"{CONTROL} comes with the driver: let the container toolkit show it (driver "
        "capability compute, utility), or set spec.vision.sharing to TimeSlicing",
        needed=need.mps,
        concerns="node",
    )
    yield _check(
        "driver",
        f"CUDA {_version(newest)}" if newest else "",
        f"torch is built for CUDA {found.engine.torch_cuda}: update the node's driver"
        if old
        else NODE,
        needed=need.on_gpu,
        holds=newest is not None and not old,
        concerns="node",
    )
    yield _check("gpu", ", ".join(found.gpus), NODE, needed=need.on_gpu, concerns="node")
