"""The real vLLM on the processor, and the real gateway before it, as processes."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

import httpx
import pytest

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.model_facts import InspectResult
from mm_api.documents.serving_plan import EncoderPlan, ServingPlan
from mm_api.documents.vllm_serve import FeatureFolder, VllmServe, ec_transfer_config
from mm_api.families import FAMILIES
from mm_api.families.family import MOST_RECORDINGS
from published_layout import published
from support.build_plans import build_plan, serving_plan
from support.ended import kill_tree
from support.eventually import eventually
from support.ports import free_ports
from support.real_gateway import gateway_of
from support.served import Served, start_serving
from support.tiny_llava import mm_runtime

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".venv-vllm" / "bin" / "vllm"
VERSION = "0.32.0"
STEP = "24"
"""Tokens of a step before disaggregated encoders: shorter than an image's prompt, as planned."""
READY_SECONDS = 900.0
"""Its two processes take 30 s of a core to import what they need."""
ANSWER_SECONDS = 300.0


def cpu_environment() -> dict[str, str]:
    return {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(PROGRAM.parents[1] / "cache"),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # that the flag below is kept
        "TORCHDYNAMO_DISABLE": "1",  # a compiler takes minutes of a busy machine, once for all
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
    }


@dataclass
class RealVllm:
    """A gateway and the vLLM behind it."""

    url: str
    address: str
    process: "subprocess.Popen[bytes]"
    command: list[str]
    log: Path
    output: IO[bytes]
    encoder: Served | None = None

    def start(self) -> None:
        """Start a server on the port of the one that has ended."""
        self.process = subprocess.Popen(
            self.command, stdout=self.output, stderr=subprocess.STDOUT, env=cpu_environment()
        )

    def wait(self) -> None:
        eventually(self._listens, seconds=READY_SECONDS, showing=self._tail)

    def _listens(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"exit code {self.process.returncode}: {self._tail()}")
        try:
            return httpx.get(f"http://{self.address}/health", timeout=30).is_success
        except httpx.TransportError:
            return False

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def metric(self, name: str) -> float:
        page = httpx.get(f"http://{self.address}/metrics", timeout=30).text
        rows = (line for line in page.splitlines() if line.startswith((f"{name} ", f"{name}{{")))
        return sum(float(row.rpartition(" ")[2]) for row in rows)


@contextmanager
def real_vllm(
    checkpoint: Path,
    folder: Path,
    *,
    limits: Mapping[str, int] = MappingProxyType({}),
    disaggregated: bool = False,
) -> Iterator[RealVllm]:
    """Stage a checkpoint into a folder and serve it in float32 until the block ends.

    `disaggregated`: an encoder computes features, and the tower that vLLM has is one of zeros.
    """
    if not PROGRAM.exists():
        pytest.skip("the real vLLM was not run: no .venv-vllm here, `make env-vllm` makes it")
    server_port, front = free_ports(2)
    plan = _staged(checkpoint, folder, limits, disaggregated=disaggregated)
    staged = folder / "store" / "engines" / plan.fingerprint
    served = (
        blinded(staged / "checkpoint", folder / "blind") if disaggregated else staged / "checkpoint"
    )
    command = _command(plan, served, server_port)
    features = (
        FeatureFolder(path=str(folder / "features"), most_bytes=8 << 20) if disaggregated else None
    )
    if features is not None:
        command += ["--ec-transfer-config", ec_transfer_config(features)]
        command += ["--max-num-batched-tokens", STEP]
    serve = VllmServe(version=VERSION, port=server_port, argv=command, features=features)
    serving = serving_plan(plan.fingerprint, backend="VLLM", vllm_serve=serve)
    videos = FAMILIES[plan.engine.family].layout.video_features is not None
    bounds = {"request_timeout_seconds": ANSWER_SECONDS, "max_video_frames": 4 * videos}
    limited = serving.gateway.model_copy(update=bounds)
    serving = serving.model_copy(update={"gateway": limited})
    documents = ("--manifest", str(staged / "manifest.json"))
    more = ("--serving", str(folder / "serving.json"), "--server-metrics", "")
    with ExitStack() as stack:
        encoder = None
        if disaggregated:
            encoder, serving = stack.enter_context(_encoder(folder, staged, serving))
        (folder / "serving.json").write_text(serving.to_json())
        output = stack.enter_context((folder / "vllm.log").open("ab"))
        found = RealVllm(
            f"http://127.0.0.1:{front}",
            f"127.0.0.1:{server_port}",
            subprocess.Popen(["true"]),
            command,
            folder / "vllm.log",
            output,
            encoder,
        )
        found.process.wait()
        found.start()
        stack.callback(lambda: kill_tree(found.process))
        found.wait()
        if encoder is not None:
            encoder.wait_until_ready()
        gateway = gateway_of((*documents, *more), front, folder / "gateway.log")
        stack.enter_context(gateway)
        yield found


@contextmanager
def _encoder(
    folder: Path, staged: Path, serving: ServingPlan
) -> Iterator[tuple[Served, ServingPlan]]:
    encoders = EncoderPlan(
        addresses=["127.0.0.1:1"], timeout_seconds=60, pools=serving.pools, key="key"
    )
    plan = folder / "encoder.json"
    plan.write_text(serving.model_copy(update={"encoders": encoders}).to_json())
    with start_serving(staged / "manifest.json", plan, "--role", "encoder") as encoder:
        encoders = encoders.model_copy(update={"addresses": [encoder.grpc_url]})
        yield encoder, serving.model_copy(update={"encoders": encoders})


def blinded(checkpoint: Path, folder: Path) -> Path:
    """Return a copy of a checkpoint whose vision tower is one of zeros."""
    from safetensors.torch import load_file, save_file  # noqa: PLC0415 (seconds)

    shutil.copytree(checkpoint, folder)
    for file in folder.glob("*.safetensors"):
        tensors = {
            name: one * 0 if "vision" in name or "visual" in name else one
            for name, one in load_file(file).items()
        }
        save_file(tensors, file, metadata={"format": "pt"})
    return folder


def _staged(
    checkpoint: Path, folder: Path, limits: Mapping[str, int], *, disaggregated: bool
) -> BuildPlan:
    source = published(checkpoint, folder / "published")
    facts = InspectResult.from_json(mm_runtime("inspect", "--source", source)).facts
    assert facts is not None
    made = build_plan(facts)
    changed = made.engine.limits.model_copy(update=dict(limits))
    if made.engine.vision is not None:  # rows of views, too
        rows = changed.max_batch_size * changed.max_input_len
        changed = changed.model_copy(update={"max_multimodal_len": rows})
    update = {"backend": "VLLM", "limits": changed, "evaluation": "Off"}
    if disaggregated:
        assert made.engine.vision is not None
        vision = made.engine.vision.model_copy(update={"engine": "Torch"})
        update |= {"vision": vision, "disaggregated_encoders": "On"}
    plan = made.model_copy(update={"engine": made.engine.model_copy(update=update)})
    (folder / "plan.json").write_text(plan.to_json())
    store = folder / "store"
    mm_runtime("build", "--plan", folder / "plan.json", "--source", source, "--store", store)
    return plan


def _command(plan: BuildPlan, checkpoint: Path, port: int) -> list[str]:
    limits = plan.engine.limits
    length = limits.max_seq_len
    given = {
        "host": "127.0.0.1",
        "port": port,
        "served-model-name": "tiny",
        "dtype": "float32",
        "max-model-len": length,
        "max-num-seqs": limits.max_batch_size,
        "limit-mm-per-prompt": json.dumps(
            {"image": limits.max_images_per_request, "audio": MOST_RECORDINGS, "video": 1}
        ),
        "override-generation-config": json.dumps({"max_new_tokens": length}),
        "shutdown-timeout": 30,
        "distributed-executor-backend": "uni",
    }
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    flags = ("--enforce-eager", "--trust-request-chat-template", "--trust-request-mm-kwargs")
    return [str(PROGRAM), "serve", str(checkpoint), *words, *flags]
