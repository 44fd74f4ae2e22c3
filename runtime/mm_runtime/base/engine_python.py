"""The interpreter that holds torch: this one, or the image's own where its pins exclude ours.

NVIDIA's images of TensorRT-LLM pin versions that the gateway's packages exclude, so those have an
environment of their own there. What runs inside Triton, and the steps of a build that import torch,
transformers or TensorRT, then run in the image's interpreter, which `MM_ENGINE_PYTHON` names.
"""

import os
import sys
from typing import Final

VARIABLE: Final = "MM_ENGINE_PYTHON"


def engine_python() -> str:
    return os.environ.get(VARIABLE) or sys.executable
