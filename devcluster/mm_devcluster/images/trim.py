"""Which files of the pinned packages a container never reads: PURE.

The only torch for Linux on the registry is the CUDA build, and libtorch_cuda.so is linked to
NVIDIA's libraries, so most of them must be there even where no GPU is. The ones below are opened
later, by name, and only by code that runs on a GPU; `tests/mm_devcluster/images/` proves on the
real image that generating and exporting need none of them.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Pattern:
    """Files that are left out of an image, and why that is safe."""

    text: str
    """Shell pattern on the path below site-packages; ``*`` also matches ``/``."""
    reason: str


PATTERNS = (
    Pattern("bin/*", "console scripts of other packages, with a path of the build machine"),
    Pattern(".lock", "left by uv"),
    Pattern("nvidia/*/include/*", "headers, 38 MB"),
    Pattern("nvidia/*.a", "static libraries"),
    Pattern("nvidia/*.bc", "device code to link GPU kernels with, 143 MB"),
    Pattern(
        "nvidia/cudnn/lib/libcudnn_*", "cuDNN's engines: its loader opens them on a GPU, 847 MB"
    ),
    Pattern("nvidia/cu13/lib/libnvperf_*", "GPU profiling, 38 MB"),
    Pattern("torch/bin/protoc*", "a compiler of protocol files, 10 MB"),
    Pattern("torch/include/*", "headers to compile extensions with, 63 MB"),
    Pattern("onnx/backend/test/*", "the test data of ONNX, 15 MB"),
)


def is_needed(path: str) -> bool:
    """Return whether a file belongs into an image.

    Args:
        path: Relative to site-packages.
    """
    return not any(fnmatchcase(path, pattern.text) for pattern in PATTERNS)
