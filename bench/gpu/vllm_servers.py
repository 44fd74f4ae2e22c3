"""Servers of bench/gpu/vllm.py: vLLM by the plan's command and its gateway, or Reference."""

import argparse
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from questions import body_of, new_image
from sites import Site, make_site

from mm_api.documents.vllm_serve import FeatureFolder, ec_transfer_config
from mm_runtime.launch.mps import MpsDaemon, MpsUnavailableError
from support.ended import kill_tree
from support.ports import free_ports
from support.real_gateway import gateway_of, run_pair
from support.served import Served as Encoder
from support.served import start_serving

BATCH = 32
SIZES = {"qwen-7b": (1280, 720), "qwen-toy": (1280, 720), "toy": (56, 56)}
LENGTHS = {"qwen-7b": 2048, "qwen-toy": 2048}
"""Features of an image are 1,196 there, and 576 in the others."""

READY_SECONDS, ANSWER_SECONDS = 420, 120
DISAGGREGATED, REFERENCE = "disaggregated", "reference"
SHARED = "0.8"
"""`kvCache.freeGpuMemoryFraction` where an encoder takes memory beside vLLM."""

ENCODER_PERCENT = "25"
"""Of the GPU's threads, as the plan gives an encoder beside a language model."""

PHASES = {
    "weights": r"Loading weights took ([\d.]+) seconds",
    "model": r"Model loading took [\d.]+ GiB(?: memory)? and ([\d.]+) seconds",
    "compilation": r"init engine .*\(compilation: ([\d.]+) s",
    "graphs": r"Graph capturing finished in ([\d.]+) secs",
    "engine_without_model": r"init engine .* took ([\d.]+) s",
}


@dataclass
class Served:
    """A server and what is in front of it; `urls`: way -> address."""

    process: "subprocess.Popen[bytes]"
    log: Path
    model: str
    urls: dict[str, str]
    features: Path | None
    gateway_log: Path

    def said(self, patterns: Mapping[str, str]) -> dict[str, float]:
        """Return what vLLM's log says, where it says it."""
        text = self.log.read_text(errors="replace")
        found = {name: re.findall(pattern, text) for name, pattern in patterns.items()}
        return {name: float(one[-1].replace(",", "")) for name, one in found.items() if one}


def parts_of(case: str) -> tuple[str, set[str]]:
    """Return the shape of a case, and what differs from the plain way."""
    shape, _, ways = case.partition(":")
    return shape, {*filter(None, ways.split("+"))}


def size_of(case: str) -> tuple[int, int]:
    """Return width and height of a case's images."""
    return SIZES.get(parts_of(case)[0], (336, 336))


def staged(case: str, work: Path, options: argparse.Namespace) -> tuple[Site, float]:
    """Return the planned and built checkpoint of a case, and the seconds."""
    shape, ways = parts_of(case)
    engine = {
        "backend": "VLLM",
        "maxBatchSize": BATCH,
        "maxImagesPerRequest": 1,
        "maxSeqLen": LENGTHS.get(shape, 1024),
        "kvCache": {"freeGpuMemoryFraction": SHARED if ways else options.fraction},
    }
    spec: dict[str, Any] = {"build": {"evaluation": "Off"}}
    if REFERENCE in ways:
        engine = {**engine, "backend": "Reference"}
        del engine["kvCache"]
        spec["vision"] = {"engine": "Torch"}
    else:
        spec["runtime"] = {"vllmVersion": options.version}
    spec["engine"] = engine
    if DISAGGREGATED in ways:
        spec["vision"] = {"engine": "Torch", "placement": "Disaggregated"}
    began = time.monotonic()
    folder = work / "sites" / case.replace(":", "-")
    site = make_site(folder, work / "checkpoints" / shape, device="CUDA", spec=spec)
    return site, round(time.monotonic() - began, 1)


def is_answered(address: str, body: str) -> bool:
    """Report whether a request was answered."""
    client = HTTPConnection(address, timeout=ANSWER_SECONDS)
    try:
        client.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        answer = client.getresponse()
        answer.read()
    except (OSError, HTTPException):
        return False
    finally:
        client.close()
    return answer.status == HTTPStatus.OK


def start(
    stack: ExitStack, case: str, site: Site, folder: Path, program: str
) -> tuple[Served, dict[str, Any]]:
    """Return the servers of a case, ready, and the seconds of the start.

    Raises:
        RuntimeError: vLLM ended; holds the end of its log.
        TimeoutError: it did not answer in time.
    """
    if REFERENCE in parts_of(case)[1]:
        return _reference(stack, site, folder)
    serving = site.plan.serving_plan
    assert serving.vllm_serve is not None
    (port,) = free_ports(1)
    argv = [program, *serving.vllm_serve.argv[1:]]
    argv[argv.index("--port") + 1] = str(port)
    vllm = serving.vllm_serve.model_copy(update={"port": port})
    plan, way = serving.model_copy(update={"vllm_serve": vllm}), "gateway"
    environment = {**os.environ, **vllm.environment}
    encoder, features = None, serving.vllm_serve.features
    if features is not None:
        root = tempfile.mkdtemp(prefix="features-", dir="/dev/shm")
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        shared = _shared_gpu(stack)
        environment |= shared
        features = FeatureFolder(path=root, most_bytes=features.most_bytes)
        argv[argv.index("--ec-transfer-config") + 1] = ec_transfer_config(features)
        encoder = _encoder(stack, site, folder, shared)
        vllm = vllm.model_copy(update={"features": features})
        assert serving.encoders is not None
        encoders = serving.encoders.model_copy(update={"addresses": [encoder.grpc_url]})
        plan, way = (
            serving.model_copy(update={"vllm_serve": vllm, "encoders": encoders}),
            DISAGGREGATED,
        )
    served = Served(
        subprocess.Popen(["true"]),
        folder / "vllm.log",
        serving.model,
        {"stock": f"127.0.0.1:{port}"},
        Path(features.path) if features else None,
        folder / f"{way}.log",
    )
    served.process.wait()
    began = time.monotonic()
    served.process = subprocess.Popen(
        argv,
        cwd=site.engine.directory,
        env=environment,
        stdout=stack.enter_context(served.log.open("wb")),
        stderr=subprocess.STDOUT,
    )
    stack.callback(kill_tree, served.process)
    bodies = {"first_text": None, "first_image": new_image(*size_of(case))}
    seconds: dict[str, Any] = {}
    for name, image in bodies.items():
        while not is_answered(served.urls["stock"], body_of(served.model, image, 2)):
            end = served.log.read_text(errors="replace")[-4000:]
            if served.process.poll() is not None:
                raise RuntimeError(f"vLLM ended: {served.process.returncode}\n{end}")
            if time.monotonic() - began > READY_SECONDS:
                raise TimeoutError(f"no answer in {READY_SECONDS} s\n{end}")
            time.sleep(0.1)
        seconds[name] = round(time.monotonic() - began, 1)
    if encoder is not None:
        encoder.wait_until_ready()
    (front,) = free_ports(1)
    file = folder / f"{way}.json"
    file.write_text(plan.to_json())
    documents = ("--manifest", str(site.engine.manifest), "--serving", str(file))
    gateway = gateway_of((*documents, "--server-metrics", ""), front, served.gateway_log)
    served.urls[way] = stack.enter_context(gateway).removeprefix("http://")
    seconds["gateway_too"] = round(time.monotonic() - began, 1)
    return served, {
        **seconds,
        "by_its_log": served.said(PHASES),
        "command": [Path(program).name, *argv[1:]],
    }


def _shared_gpu(stack: ExitStack) -> dict[str, str]:
    """Return the environment of processes that share a GPU; empty where there is no MPS."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mps-")))
    try:
        return stack.enter_context(MpsDaemon(folder)).environment
    except MpsUnavailableError as error:
        print(f"encoder and vLLM take turns on the GPU: {error}", flush=True)
        return {}


def _encoder(stack: ExitStack, site: Site, folder: Path, shared: Mapping[str, str]) -> Encoder:
    """Return an encoder beside vLLM, which starts."""
    own = folder / "encoder"
    own.mkdir(exist_ok=True)
    share = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": ENCODER_PERCENT} if shared else {}
    return stack.enter_context(
        start_serving(
            site.engine.manifest,
            site.engine.serving,
            *("--role", "encoder"),
            folder=own,
            environment={**os.environ, **shared, **share},
        )
    )


def _reference(stack: ExitStack, site: Site, folder: Path) -> tuple[Served, dict[str, Any]]:
    """Return the Reference engine in Triton with its gateway, ready, and the seconds."""
    began = time.monotonic()
    pair = stack.enter_context(run_pair(site.engine, folder))
    urls = {REFERENCE: pair.url.removeprefix("http://")}
    served = Served(pair.server, pair.server_log, pair.model, urls, None, pair.gateway_log)
    return served, {"gateway_too": round(time.monotonic() - began, 1)}


def handed_over(served: Served) -> dict[str, int]:
    """Return how many features lie ready, and how many images vLLM encoded all the same."""
    assert served.features is not None
    log = served.gateway_log.read_text(errors="replace")
    return {
        "files": len([*served.features.glob("*/encoder_cache.safetensors")]),
        "encoded_by_vllm": log.count("vLLM encodes an image itself"),
    }
