"""Servers on GPUs that each is given: vLLM by the command of a plan, and what a driver counts."""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from gpu_record import driver
from questions import body_of, new_image
from sites import Site
from vllm_servers import Served, handed_over, is_answered

from mm_api.documents.serving_plan import ServingPlan
from mm_api.documents.vllm_serve import ec_transfer_config
from support.ended import kill_tree
from support.ports import free_ports
from support.real_gateway import gateway_of
from support.served import start_serving
from vllm import FOUND

GPUS = ("0", "1")
NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "NVSHMEM_DISABLE_NVLS": "1",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
}


@dataclass
class Unit:
    """A server, and the gateway before it."""

    url: str
    model: str


def spec_of(options: argparse.Namespace, *more: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of a model on vLLM, with more of them."""
    spec: dict[str, Any] = {
        "engine": {
            "backend": "VLLM",
            "maxBatchSize": 32,
            "maxImagesPerRequest": 1,
            "maxSeqLen": 1024,
            "kvCache": {"freeGpuMemoryFraction": options.fraction},
        },
        "runtime": {"vllmVersion": options.version},
        "build": {"evaluation": "Off"},
    }
    for fields in more:
        for part, added in fields.items():
            spec[part] = {**spec.get(part, {}), **added}
    return spec


class Vllm:
    """vLLM by the command of a plan, on the GPUs that it is given."""

    def __init__(
        self, stack: ExitStack, site: Site, name: str, gpus: str, options: argparse.Namespace
    ) -> None:
        """Keep what `start` needs; an encoder on the second card is started where it is planned."""
        self._stack, self._site, self._gpus, self._options = stack, site, gpus, options
        self._folder = options.logs / name
        self._folder.mkdir(parents=True)
        self.log = self._folder / "vllm.log"
        self.log.touch()
        self.plan = site.plan.serving_plan
        (self._port,) = free_ports(1)
        self.address = f"127.0.0.1:{self._port}"
        serve = self.plan.vllm_serve
        assert serve is not None
        self._argv = [*serve.argv]
        self._argv[self._argv.index("--port") + 1] = str(self._port)
        changes: dict[str, Any] = {"port": self._port}
        if self.plan.encoders is not None:
            assert serve.features is not None
            memory = tempfile.TemporaryDirectory(prefix="features-", dir="/dev/shm")
            features = serve.features.model_copy(update={"path": stack.enter_context(memory)})
            self._argv[self._argv.index("--ec-transfer-config") + 1] = ec_transfer_config(features)
            changes["features"] = features
        update: dict[str, Any] = {"vllm_serve": serve.model_copy(update=changes)}
        if options.device == "cpu":
            update["device"] = "CPU"
        self.plan = self.plan.model_copy(update=update)
        self._encoder = self._encoder_of(GPUS[1]) if self.plan.encoders is not None else None

    def _encoder_of(self, gpu: str) -> Any:
        path = self._folder / "encoder.json"
        path.write_text(self._encoded_at("127.0.0.1:1").to_json())
        serving = start_serving(
            self._site.engine.manifest,
            path,
            *("--role", "encoder"),
            folder=self._folder,
            environment={**os.environ, "CUDA_VISIBLE_DEVICES": gpu},
        )
        return self._stack.enter_context(serving)

    def _encoded_at(self, address: str) -> ServingPlan:
        assert self.plan.encoders is not None
        encoders = self.plan.encoders.model_copy(update={"addresses": [address], "key": "bench"})
        return self.plan.model_copy(update={"encoders": encoders})

    def start(self, *more: str) -> None:
        """Start the server."""
        serve = self.plan.vllm_serve
        assert serve is not None
        program = shutil.which(self._options.program)
        assert program, f"no program {self._options.program}"
        program = str(Path(program).absolute())  # it is started elsewhere
        self.process = subprocess.Popen(
            [program, *self._argv[1:], *more, *self._options.flags],
            cwd=self._site.engine.directory,
            env={
                **os.environ,
                **serve.environment,
                **NO_MULTICAST,
                "CUDA_VISIBLE_DEVICES": self._gpus,
            },
            stdout=self._stack.enter_context(self.log.open("ab")),
            stderr=subprocess.STDOUT,
        )
        self._stack.callback(kill_tree, self.process)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something holds.

        Raises:
            RuntimeError: the server ended; holds the end of its log.
            TimeoutError: it does not hold in time.
        """
        deadline = time.monotonic() + self._options.ready
        while not is_so():
            end = self.log.read_text(errors="replace")[-6000:]
            if self.process.poll() is not None:
                raise RuntimeError(f"vLLM ended: {self.process.returncode}\n{end}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready in {self._options.ready} s\n{end}")
            time.sleep(0.2)

    def knows_its_memory(self) -> bool:
        """Report whether the server has profiled what it takes of its GPUs."""
        return "kv_tokens" in self.said()

    def said(self) -> dict[str, float]:
        """Return what the log says of memory."""
        return Served(self.process, self.log, self.plan.model, {}, None, self.log).said(FOUND)

    def handed_over(self) -> dict[str, int]:
        """Return how many features lie ready, and how many images vLLM encoded all the same."""
        assert self.plan.vllm_serve is not None
        assert self.plan.vllm_serve.features is not None
        features = Path(self.plan.vllm_serve.features.path)
        gateway = self._folder / "gateway.log"
        return handed_over(Served(self.process, self.log, "", {}, features, gateway))

    def unit(self, side: int) -> Unit:
        """Return the server with a gateway before it, once both have answered."""
        for image in (None, new_image(side)):
            self.until(lambda: is_answered(self.address, body_of(self.plan.model, image, 2)))  # noqa: B023
        path, plan = self._folder / "serving.json", self.plan
        if self._encoder is not None:
            self._encoder.wait_until_ready()
            plan = self._encoded_at(self._encoder.grpc_url)
        path.write_text(plan.to_json())
        (front,) = free_ports(1)
        documents = ("--manifest", str(self._site.engine.manifest), "--serving", str(path))
        gateway = gateway_of(
            (*documents, "--server-metrics", ""), front, self._folder / "gateway.log"
        )
        return Unit(self._stack.enter_context(gateway), plan.model)


def counted_by_gpu(root: int) -> dict[str, int]:
    """Return the bytes of a process and those below it on each GPU, by the driver."""
    below = {root, *(one.pid for one in psutil.Process(root).children(recursive=True))}
    query = "--query-compute-apps=pid,used_memory,gpu_bus_id"
    found: dict[str, int] = {}
    for line in driver(query, "--format=csv,noheader,nounits"):
        pid, used, gpu = (word.strip() for word in line.split(","))
        if int(pid) in below:
            found[gpu] = found.get(gpu, 0) + (int(used) << 20)
    return found


@contextmanager
def seen_by_children(gpu: str) -> Iterator[None]:
    """Let processes that are started meanwhile see one GPU.

    By its UUID: MPS counts those that its daemon sees from 0 again.
    """
    uuids = driver("--query-gpu=uuid", "--format=csv,noheader")
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = uuids[int(gpu)]
    try:
        yield
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
