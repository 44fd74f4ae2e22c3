"""Texts of the two Dockerfiles for GPUs: Reference on CUDA, and an image of NVIDIA's with our code.

Neither is made by mm_devcluster.images: no cluster on one machine has a GPU.
"""

from typing import Final

from mm_devcluster.images.base import ACCOUNTS
from mm_devcluster.images.catalogue import RUNTIME, VARIABLES
from mm_devcluster.images.sources import LIBRARY, USER, VENV

PREFIX: Final = VENV.rpartition("/")[0]
BESIDE: Final = f"{PREFIX}/packages"
"""What the image's interpreter lacks; behind its own packages."""
_SITE_PACKAGES: Final = f"{VENV}/lib/python3.12/site-packages"
_ENVIRONMENT: Final = " ".join(
    f"{name}={VARIABLES[name]}"
    for name in ("HOME", "LANG", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
)
_COPIED_CODE: Final = "\n".join(
    f"COPY {package} {LIBRARY}/{package.rpartition('/')[2]}" for package in RUNTIME.code.packages
)
_CODE: Final = f"""\
COPY LICENSE {PREFIX}/LICENSE
{_COPIED_CODE}
COPY pyproject.toml tools/install_commands.py /
RUN {VENV}/bin/python /install_commands.py {RUNTIME.entrypoint} \\
 && {VENV}/bin/python -m compileall -q {LIBRARY}"""
_ADDED_ACCOUNTS: Final = " \\\n".join(
    f" && {{ grep -q ':{USER}:' {file} || echo '{line.strip()}' >> {file}; }}"
    for file, line in ACCOUNTS.items()
)

_CUDA: Final = f"""\
# Backend Reference on CUDA: Triton's server, torch with its CUDA libraries, transformers.
# docker build -f runtime/Dockerfile.cuda .
#
# The driver comes from the node: NVIDIA's container toolkit mounts it.
FROM ubuntu:24.04 AS base
# gcc and Python's headers: torch's kernel compiler (package triton) builds its launcher in the pod.
RUN apt-get update \\
 && apt-get install --yes --no-install-recommends ca-certificates gcc libc6-dev libpython3.12 \\
      python3.12 python3.12-dev \\
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* \\
{_ADDED_ACCOUNTS}
ENV {_ENVIRONMENT} \\
    PATH={VARIABLES["PATH"]} \\
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM base AS environment
RUN apt-get update && apt-get install --yes --no-install-recommends python3-pip python3.12-venv
COPY requirements/uv.txt requirements/runtime-cuda.txt /requirements/
RUN pip install --break-system-packages --no-deps --require-hashes \\
      --requirement /requirements/uv.txt \\
 && uv venv --python /usr/bin/python3.12 {VENV} \\
 && uv pip install --python {VENV} --require-hashes --no-deps --compile-bytecode \\
      --requirement /requirements/runtime-cuda.txt

FROM environment AS code
{_CODE}

FROM base
# torch in a layer of its own: it is the one that is never sent twice.
COPY --from=environment {VENV} {VENV}
COPY --from=code {LIBRARY} {LIBRARY}
COPY --from=code {PREFIX}/LICENSE {PREFIX}/LICENSE
COPY --from=code {VENV}/bin/{RUNTIME.entrypoint} {VENV}/bin/{RUNTIME.entrypoint}
COPY --from=code {_SITE_PACKAGES}/multimodal-operator.pth \\
     {_SITE_PACKAGES}/
USER {USER}:{USER}
ENTRYPOINT ["{VENV}/bin/{RUNTIME.entrypoint}"]
"""

_TRTLLM: Final = f"""\
# Backends TensorRT and PyTorch: one of NVIDIA's images of Triton with TensorRT-LLM, and mm-runtime.
# docker build -f runtime/Dockerfile.trtllm --build-arg TRITON_IMAGE=IMAGE .
# IMAGE: NVIDIA's tritonserver with a tag such as 25.06-trtllm-python-py3.
#
# Python 3.12, which those images have since 24.12. Two environments, because their pins and ours
# exclude each other: mm-runtime (gateway, supervisor, sources) in {VENV};
# models inside Triton, build steps and TensorRT-LLM in the image's own, with its versions.
ARG TRITON_IMAGE
FROM ${{TRITON_IMAGE}} AS base
# The interpreter that has tensorrt_llm: /opt/venv-tritonserver/bin/python3 in tags that have it.
ARG ENGINE_PYTHON=/usr/bin/python3
USER root

FROM base AS environment
COPY requirements/uv.txt requirements/trtllm-supervisor.txt requirements/trtllm-engine.txt \\
     /requirements/
# NVIDIA's constraints are for its own environment, which stays as it is.
ENV PIP_CONSTRAINT=
RUN "$ENGINE_PYTHON" -m pip install --no-deps --require-hashes --target /uv \\
      --requirement /requirements/uv.txt \\
 && /uv/bin/uv venv --python "$ENGINE_PYTHON" {VENV} \\
 && /uv/bin/uv pip install --python {VENV} --require-hashes --no-deps --compile-bytecode \\
      --requirement /requirements/trtllm-supervisor.txt \\
 && /uv/bin/uv pip install --python "$ENGINE_PYTHON" --target {BESIDE} \\
      --require-hashes --no-deps --compile-bytecode --requirement /requirements/trtllm-engine.txt
{_CODE}

FROM base AS examples
# Tags from 24.12 to 25.05 lack TensorRT-LLM's examples, which builds of backend TensorRT run: give
# EXAMPLES_VERSION (of TensorRT-LLM, as in the tag) and the SHA-256 of that source archive.
ARG EXAMPLES_VERSION=
ARG EXAMPLES_SHA256=
ARG EXAMPLES_ARCHIVE=https://github.com/NVIDIA/TensorRT-LLM/archive/refs/tags/v${{EXAMPLES_VERSION}}.tar.gz
RUN mkdir -p /added/app \\
 && if [ -n "$EXAMPLES_VERSION" ]; then \\
      "$ENGINE_PYTHON" -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' \\
        "$EXAMPLES_ARCHIVE" /examples.tar.gz \\
      && echo "$EXAMPLES_SHA256  /examples.tar.gz" | sha256sum --check \\
      && tar -xzf /examples.tar.gz -C /added/app --strip-components=1 --wildcards '*/examples'; \\
    elif [ ! -d /app/examples ] && [ ! -d /app/tensorrt_llm/examples ]; then \\
      echo "no examples in this image: backend TensorRT needs EXAMPLES_VERSION" >&2; \\
    fi

FROM base
COPY --from=environment {PREFIX} {PREFIX}
COPY --from=examples /added/ /
# A path behind the image's own packages, a command on PATH without its environment, a named user.
RUN packages=$("$ENGINE_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \\
 && printf '%s\\n' {LIBRARY} {BESIDE} > "$packages/multimodal-operator.pth" \\
 && ln -s {VENV}/bin/{RUNTIME.entrypoint} /usr/local/bin/{RUNTIME.entrypoint} \\
{_ADDED_ACCOUNTS}
ENV {_ENVIRONMENT} \\
    MM_ENGINE_PYTHON=${{ENGINE_PYTHON}}
USER {USER}:{USER}
# The image is checked while it is built; GPU and driver are the node's. Answers of checkpoints need
# transformers 4.48; builds in an image with an older one skip them and say so.
RUN {RUNTIME.entrypoint} doctor --for inspect --address hf:// --address s3:// \\
 && "$MM_ENGINE_PYTHON" -c 'import transformers; hasattr(transformers, "AttentionInterface") \\
    and __import__("mm_runtime.engine_build.commands.checkpoint_answers")'
ENTRYPOINT ["{VENV}/bin/{RUNTIME.entrypoint}"]
"""


def cuda_dockerfile() -> str:
    """Return the file of backend Reference on CUDA."""
    return _CUDA


def trtllm_dockerfile() -> str:
    """Return the file of backends TensorRT and PyTorch."""
    return _TRTLLM
