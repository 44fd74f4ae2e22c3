"""The two processes of a pod of backend PyTorch: recorded trtllm-serve and the gateway."""

import os
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mm_api.contract import ExitCode
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.families.images import write
from support.model_configs import planned
from support.native.image import make_image
from support.ports import free_ports
from support.real_gateway import gateway_of
from support.served import EngineFiles, Served, start_serving
from support.staging_sites import StagingSite, staging_site
from support.trtllm_tools.install import LLM_API, Tools

VERSION = "1.1.0"
MODEL = "qwen2-vl"


def staged_engine(
    folder: Path, version: str = VERSION, images: int = 1, **spec: object
) -> EngineFiles:
    source = write(MODEL, folder / "source")
    complete = planned(
        MODEL,
        {"backend": "PyTorch", "maxBatchSize": 4, "maxImagesPerRequest": images, "maxSeqLen": 256},
        version=version,
        facts=inspect(source, InspectOptions()),
        model={},
        **spec,
    )
    assert not complete.errors, complete.errors
    assert complete.build_plan
    return _sealed(StagingSite(source, folder / "store", complete.build_plan, complete), folder)


def hollow_engine(folder: Path, **engine: object) -> EngineFiles:
    """Stage a checkpoint that no gateway could read; `engine` are fields of the resource."""
    return _sealed(staging_site(folder, engine=engine, version=VERSION), folder)


def _sealed(site: StagingSite, folder: Path) -> EngineFiles:
    site.store.mkdir(exist_ok=True)
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    assert site.planned.serving_plan
    serving = folder / "serving.json"
    serving.write_text(site.planned.serving_plan.to_json())
    return EngineFiles(site.paths.manifest, serving)


def with_free_port(serving: Path, folder: Path, **gateway: object) -> Path:
    """Write the plan into a folder, with another port for its server; `gateway` replaces limits."""
    plan = ServingPlan.from_json(serving.read_bytes())
    command = plan.trtllm_serve
    assert command
    (port,) = free_ports(1)
    words = [str(port) if word == str(command.port) else word for word in command.argv]
    path = folder / "serving.json"
    changed = {
        "trtllm_serve": command.model_copy(update={"port": port, "argv": words}),
        "gateway": plan.gateway.model_copy(update=gateway),
    }
    path.write_text(plan.model_copy(update=changed).to_json())
    return path


def tool_environment(
    tools: Tools, loads_until: Path | None = None, *, generates: bool = False
) -> dict[str, str]:
    """Return the variables of a process that finds the recorded tools.

    Args:
        tools: where they are.
        loads_until: the server loads until this file is there; None: in no time.
        generates: it answers with its checkpoint, by transformers; else with fixed sentences.
    """
    return {
        **os.environ,
        **tools.environment(os.environ["PATH"]),
        "MM_RECORDED_LOADS_UNTIL": str(loads_until or ""),
        "MM_RECORDED_PACKAGES": sysconfig.get_path("purelib") if generates else "",
    }


@dataclass(frozen=True)
class TrtllmPod:
    """A running pod."""

    served: Served
    url: str
    gateway_log: Path


@contextmanager
def trtllm_pod(
    engine: EngineFiles, tools: Tools, folder: Path, *, awaited: bool = True, **gateway: object
) -> Iterator[TrtllmPod]:
    serving = with_free_port(engine.serving, folder, **gateway)
    image = make_image(folder / "image", tools.version)
    packages = next(image.python_bin.parent.glob("lib/*/site-packages"))
    (packages / "llm_api.pth").write_text(f"{tools.root / LLM_API.name}\n")
    (front,) = free_ports(1)
    with ExitStack() as stack:
        served = stack.enter_context(
            start_serving(
                engine.manifest,
                serving,
                *("--gateway-port", str(front)),
                folder=folder,
                environment=tool_environment(tools, generates=True),
                program=image.program,
            )
        )
        log = folder / "gateway.log"
        documents = ("--manifest", str(engine.manifest), "--serving", str(serving))
        documents += ("--server-metrics", f"127.0.0.1:{served.metrics}")
        url = stack.enter_context(gateway_of(documents, front, log, awaited=awaited))
        yield TrtllmPod(served, url, log)
