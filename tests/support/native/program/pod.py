"""`mm-runtime` as it runs in the image: its server has the backend `tensorrtllm`.

A program: BACKEND PYTHON_BIN WORD..., the words being those of `mm-runtime`.
"""

import sys
from dataclasses import replace
from pathlib import Path

from mm_runtime import cli
from mm_runtime.backends.pytorch import server
from mm_runtime.launch import tritonserver
from mm_runtime.launch.backends import Installation, find_installation


def main() -> int:
    backend, python_bin, *words = sys.argv[1:]

    def installed() -> Installation:
        found = {"trtllm_backend": Path(backend), "python_bin": Path(python_bin)}
        return replace(find_installation(), **found)

    tritonserver.find_installation = server.find_installation = installed
    return cli.main(words)


if __name__ == "__main__":
    sys.exit(main())
