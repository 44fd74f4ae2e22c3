"""A shape of checkpoints.py in a development cluster: its claim, its pods, the main job.

`python bench/gpu/cluster.py --shape 7b` runs it: apply, inspect, plan from the node's labels,
build, Ready; answers about new images, unary and streamed, compared with each other and with those
of the pod that takes the place of a deleted one.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from checkpoints import SHAPES
from cluster_faults import delete_pod
from cluster_models import (
    WHERE,
    Question,
    address,
    answers,
    holds,
    on_gpu_by_pod,
    serving_pods,
    until,
)
from cluster_stages import (
    Driver,
    Seconds,
    evidence_of,
    follow,
    images,
    install,
    node_labels,
    planned,
    start,
    uninstalled,
)
from sites import noise

from mm_api.contract import GATEWAY_PORT
from mm_api.hosts import bracketed
from mm_devcluster import cluster
from mm_devcluster.demo import installation, settings
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from mm_devcluster.layout import Layout
from mm_devcluster.paths import cluster_dir

LIMITS = {"maxBatchSize": 16, "maxImagesPerRequest": 1, "maxSeqLen": 1024}
LENGTHS = {"bigg": 2048}
"""Of a sequence, where an image has more than 576 features."""
QUESTIONS = 8


@contextmanager
def checkpoints_made(
    shapes: Sequence[str], folder: Path, device: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Let a process write checkpoints meanwhile, unless they are there; it ends with the block."""
    script = Path(__file__).parent / "checkpoints.py"
    command = [sys.executable, str(script), "--folder", str(folder), "--device", device]
    process = subprocess.Popen([*command, "--shapes", *shapes])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def put_into_claim(target: Target, *checkpoints: Path) -> None:
    """Make the demo's claim, and link the files of checkpoints into its volume.

    `mmctl upload` would copy them through the API server, for minutes.
    """
    installation.make_namespace(target, settings.DEMO_NAMESPACE)
    target.apply(yaml.safe_load(settings.CLAIM_MANIFEST.read_text(encoding="utf-8")))
    claim = ("pvc", settings.CLAIM, *WHERE)
    until("a bound claim", lambda: target.document(*claim)["status"].get("phase") == "Bound")
    volume = target.document("pv", target.document(*claim)["spec"]["volumeName"])
    name = Path(volume["spec"]["hostPath"]["path"]).name
    folder = Layout(cluster_dir(target.name)).volumes / name
    for one in checkpoints:
        shutil.copytree(one, folder / one.name, copy_function=_linked)


def _linked(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # of another file system
        shutil.copyfile(source, target)
    Path(target).chmod(0o644)  # weights are written for their owner alone
    return target


def manifest(
    name: str, shape: str, *, on_gpu: bool, **more: Mapping[str, object] | int
) -> dict[str, Any]:
    """Return a model of the checkpoint, with more of its spec's fields."""
    text = settings.FAMILIES[settings.FIRST].manifest.read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    document["metadata"]["name"] = name
    spec = document["spec"]
    spec["model"]["source"]["persistentVolumeClaim"]["path"] = shape
    spec["engine"] = {"backend": "Reference", **LIMITS}
    spec["engine"]["maxSeqLen"] = LENGTHS.get(shape, LIMITS["maxSeqLen"])
    spec["vision"] = {"engine": "Torch"}
    spec["build"]["store"]["size"] = "40Gi"
    for part in ("build", "runtime"):
        spec[part]["resources"]["limits"]["memory"] = "72Gi" if on_gpu else "4Gi"
    if on_gpu:
        spec["runtime"]["gpu"] = {"count": 1}
    for field, value in more.items():
        spec[field] = {**spec.get(field, {}), **value} if isinstance(value, Mapping) else value
    return document


def url_of(pod: Mapping[str, Any]) -> str:
    """Return where the gateway of one pod answers."""
    return f"http://{bracketed(pod['status']['podIP'])}:{GATEWAY_PORT}"


CARDS = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
assert not cuda.cuInit(0)
count, device, name = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
cuda.cuDeviceGetCount(ctypes.byref(count))
for at in range(count.value):
    cuda.cuDeviceGet(ctypes.byref(device), at)
    cuda.cuDeviceGetUuid_v2(name, device)
    print(bytes(name).hex())
"""


def in_server(target: Target, pod: Mapping[str, Any], script: str, *words: str) -> str:
    """Return what a script of Python prints in the server of a pod, or in its encoder."""
    spec = pod["spec"]
    names = [one["name"] for one in (*spec.get("initContainers", ()), *spec["containers"])]
    where = (*WHERE, "-c", "server" if "server" in names else "encoder")
    program = ("python", "-c", script, *words)
    return target.call("exec", pod["metadata"]["name"], *where, "--", *program, timeout=120)


def gpus_seen(target: Target, pod: Mapping[str, Any]) -> list[str]:
    """Return the ids of the GPUs that CUDA sees in a pod's server."""
    return in_server(target, pod, CARDS).split()


def questions(shape: str) -> list[Question]:
    """Return questions about images of noise."""
    side = SHAPES[shape].side
    return [(f"What is it, in {at + 3} words?", noise(at, side)) for at in range(QUESTIONS)]


def equal(here: Sequence[str], there: Sequence[str]) -> str:
    """Return how many texts are equal."""
    return f"{sum(a == b for a, b in zip(here, there, strict=True))} of {len(here)}"


def run_shape(
    session: Session, options: argparse.Namespace, results: dict[str, dict[str, Any]]
) -> None:
    """Do the main job with one model; what was found so far is in the results, however it ends."""
    on_gpu, shape = options.gpu != "none", options.shape
    engine, model = options.vision_engines[0], f"llava-{shape}"
    seconds = Seconds()
    result: dict[str, Any] = {"shape": shape, "seconds": seconds.taken}
    results[engine] = result
    folder = options.checkpoints
    device = "cuda" if on_gpu else "cpu"
    with checkpoints_made([shape], folder, device) as writing:
        target = start(session, seconds, options.gpu if on_gpu else None)
        result["node_labels"] = node_labels(target)
        driver = Driver(target)
        try:
            with seconds.of("images"):
                result["images"] = images(session, options)
            install(session, seconds)
            with seconds.of("checkpoint"):
                assert not writing.wait(options.timeout), "checkpoints.py failed"
                put_into_claim(target, folder / shape)
            build = {"evaluation": options.evaluation}
            vision = {"engine": engine}
            target.apply(manifest(model, shape, on_gpu=on_gpu, build=build, vision=vision))
            follow(target, seconds, model, options.timeout)
            result["planned"] = planned(target, model)
            result["answers"] = _answered(target, model, shape, seconds)
            with seconds.of("uninstall"):
                result["processes_on_gpu_after_the_models"] = uninstalled(target)
        except Exception:
            print(evidence_of(session, [model]), flush=True)
            raise
        finally:
            driver.stop()
            with seconds.of("down"):
                cluster.down(session.options.cluster)
            result["peak_bytes_by_container"] = driver.peak
            result["peak_bytes_by_process"] = driver.processes
            result["processes_on_gpu_at_the_end"] = len(on_gpu_by_pod())


def _answered(target: Target, model: str, shape: str, seconds: Seconds) -> dict[str, str]:
    """Return how many answers are equal: streamed, and of the pod after a deleted one."""
    queries, url = questions(shape), address(target, model)
    with seconds.of("answers"):
        first = answers(url, model, queries)
    gone = serving_pods(target, model)[0]["metadata"]["name"]
    with seconds.of("another pod"):
        delete_pod(target, model)

        def replaced() -> bool:
            names = [one["metadata"]["name"] for one in serving_pods(target, model)]
            return gone not in names and bool(names) and holds(target, model)

        until("another pod", replaced)
    second = answers(url, model, queries)
    return {
        "streamed_equal_to_unary": equal(first["streamed"], first["unary"]),
        "another_pod_equal": equal(second["unary"], first["unary"]),
        "different_answers": str(len(set(first["unary"]))),
    }
