"""The supervisor's server of backend PyTorch: trtllm-serve, or Triton where it is published."""

import http.client
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mm_api.documents.engine_manifest import CHECKPOINT_FOLDER, EngineManifest
from mm_api.documents.trtllm_serve import TrtllmServe
from mm_runtime.base.tool_versions import tool_versions
from mm_runtime.errors import PermanentError
from mm_runtime.launch.backends import find_installation
from mm_runtime.launch.health import InFlight, State, get
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.server import Command, MetricsPage, Server, report_locked_memory
from mm_runtime.launch.tritonserver import triton_of
from mm_runtime.repository import llm_api
from mm_runtime.settings import trtllm_root

FOLDER = "trtllm-serve"
"""Below the server's own folder: where the command runs."""

HEALTH = "/health"
METRICS = "/prometheus/metrics"
"""Prometheus' text; `/metrics` is JSON. Absent before TensorRT-LLM 1.1."""

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class TrtllmServer:
    """One server, which starts a process for each rank by itself."""

    plan: TrtllmServe
    folder: Path
    environment: Mapping[str, str]
    name: str = "trtllm-serve"

    @property
    def command(self) -> Command:
        """How it is started: the plan's words, where `models/NAME` is the checkpoint."""
        return Command(tuple(self.plan.argv), self.environment, self.folder)

    @property
    def metrics(self) -> MetricsPage:
        return MetricsPage(self.plan.port, METRICS)

    @property
    def restarts(self) -> bool:
        """Whether nothing outlives it.

        Processes of other ranks are MPI's children and not in its process group: they would keep
        their GPUs, so the container has to end with it.
        """
        return self.plan.ranks == 1

    def state(self) -> State:
        """Return how it is now: it listens when the model is loaded."""
        answer = get(_LOOPBACK, self.plan.port, HEALTH)
        if answer is None:
            return State.UNREACHABLE
        return State.READY if answer[0] == http.client.OK else State.LOADING

    def is_alive(self) -> bool:
        """Return true: it has no page for that, and the supervisor sees when it ends."""
        return True

    def in_flight(self) -> InFlight:
        """Return none: only the gateway can query it, and the drain watches the gateway's port."""
        return InFlight(0, 0)

    def clean(self) -> None:
        """Do nothing: it keeps nothing outside of its processes."""


def prepare_trtllm_serve(options: ServeOptions, _engine: EngineManifest) -> Server:
    """Write the folder that the plan's command runs in; return the server of it.

    Raises:
        PermanentError: the plan has no command, or the image has another TensorRT-LLM.
    """
    plan = options.serving.trtllm_serve
    if plan is None:
        raise PermanentError(
            f"{options.serving_path} is for backend PyTorch and does not say how trtllm-serve is"
            " called: it comes from another version of the operator."
        )
    _check_image(plan)
    report_locked_memory(plan.ranks)
    folder = options.folder / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    link = folder / plan.checkpoint
    link.parent.mkdir(parents=True)
    checkpoint = options.manifest.parent.absolute() / CHECKPOINT_FOLDER
    link.symlink_to(checkpoint, target_is_directory=True)
    # JSON is YAML, which the server reads.
    if plan.in_triton:
        content = json.dumps(plan.options | {"model": str(link.absolute())}, indent=2)
        serving = options.serving_path.absolute()
        files = llm_api.layout(content, serving, plan.port, trtllm_root())
        server = triton_of(files, find_installation(), options)
        # tritonserver alone fails with MPI_ERR_SPAWN, says NVIDIA's guide.
        return replace(server, argv=(plan.argv[0], *server.argv), restarts=plan.ranks == 1)
    (folder / plan.options_file).write_text(json.dumps(plan.options, indent=2, sort_keys=True))
    return TrtllmServer(plan, folder, _environment(os.environ))


def _check_image(plan: TrtllmServe) -> None:
    program = plan.argv[0]
    if shutil.which(program) is None:
        raise PermanentError(
            f"{program} is not in this image: set spec.runtime.image to one with TensorRT-LLM"
            f" {plan.version}, or spec.engine.backend to Reference."
        )
    found = tool_versions().get("tensorrt_llm")
    if found != plan.version:
        raise PermanentError(
            f"This image has TensorRT-LLM {found or '(none)'}; the plan was made for"
            f" {plan.version}. Set spec.runtime.image to an image of that version, or"
            " spec.build.trtllmVersion to the image's."
        )


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment: what is inherited, and nothing that reaches out."""
    return {
        **inherited,
        "HF_HUB_OFFLINE": "1",  # the engine is the only source: a pod must not reach out
        "TRANSFORMERS_OFFLINE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # the root file system is read-only
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",  # it warns after every fork otherwise
        "PMIX_MCA_gds": "hash",  # MPI's shared-memory store fails in containers
    }
