"""The main job in a Kubernetes with a GPU: from `kubectl apply` to nothing left on the GPU.

    python bench/gpu/cluster.py --images machine --pinned FOLDER --tensorrt FOLDER \
        --vision-engines Torch TensorRT
    python bench/gpu/cluster.py --gpu none          a rehearsal on the processor, the demo's images

A machine without a network is set up from what `offline/pack.sh` packed, by `offline/setup.sh`.

Starts a development cluster with the machine's GPU for four pods in turns, installs the chart and
applies tiny-llava on the GPU for each vision engine, and on the processor, whose answers are the
measure. Every committed question is sent to all, unary and streamed. Then load on the first until
the autoscaler has added a replica, and none until it is gone; meanwhile on the last, beside clients
that send without pause: SIGKILL for each process of a server, a deleted pod, a drained node, and
one that loses its GPU. Last, everything is removed. The driver is read four times a second: each
container's peak is given beside what was planned.
"""

import argparse
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml
from cluster_faults import faults
from cluster_models import (
    NAMESPACE,
    WAIT_SECONDS,
    WHERE,
    address,
    holds,
    model_of,
    pods,
    until,
)
from faults import Load
from gpu_record import RESULTS, processes_on_gpu, write
from machine_images import make_images
from sites import chat, send

from mm_devcluster import cluster
from mm_devcluster.demo import autoscaling, installation, preparation, settings, teardown
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.catalogue import OPERATOR, RUNTIME
from support.tiny_llava import samples

MODEL, REFERENCE = settings.MODEL, "on-the-processor"
SECOND = "on-another-engine"
HOST = "host,replicas=4"
READ_SECONDS = 0.25
POD = re.compile(r"pod([0-9a-f_-]{36})/([0-9a-f]{64})")
CPU = "3"
"""Of a replica under load: its start must not take minutes, and 16 cores carry two and clients."""
OVERLOAD = 1.25
"""Times what a replica answers: what queues while the second one starts is gone half a minute later
(at 1.5 it took two)."""


class Seconds:
    """How long each stage took; a prefix is printed before it."""

    def __init__(self, prefix: str = "") -> None:
        self.taken: dict[str, float] = {}
        self._prefix = prefix

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Take the time of a block; print it."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.taken[stage] = round(time.monotonic() - began, 1)
            print(f"{self.taken[stage]:7.1f} s  {self._prefix}{stage}", flush=True)


class Driver:
    """What nvidia-smi counts for each container, sampled until stopped."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._stop = threading.Event()
        self._names: dict[str, str] = {}
        self.peak: dict[str, int] = {}
        """Pod and container -> bytes of all its processes at one time."""

        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._stop.wait(READ_SECONDS):
            with suppress(OSError, subprocess.SubprocessError, DevClusterError):
                now: Counter[str] = Counter()
                for pid, used in processes_on_gpu().items():
                    now[self._name(pid)] += used
                for name, used in now.items():
                    self.peak[name] = max(used, self.peak.get(name, 0))

    def _name(self, pid: int) -> str:
        found = POD.search(Path(f"/proc/{pid}/cgroup").read_text())
        if found is None:
            return "outside of pods"
        if found[2] not in self._names:
            for pod in pods(self._target, "--all-namespaces"):
                status = pod["status"]
                # A server is a sidecar, which Kubernetes lists among the init containers.
                for one in (
                    *status.get("initContainerStatuses", ()),
                    *status.get("containerStatuses", ()),
                ):
                    container = one.get("containerID", "").rpartition("/")[2]
                    self._names[container] = f"{pod['metadata']['name']} {one['name']}"
        return self._names.get(found[2], found[2])

    def stop(self) -> None:
        """End the reading."""
        self._stop.set()
        self._thread.join(30)


def manifest(name: str, *, on_gpu: bool, vision_engine: str) -> dict[str, Any]:
    """Return tiny-llava as the example has it, on the GPU or on the processor.

    On the GPU it has the limits that a load sets: setting them later would be another rollout.
    """
    text = settings.FAMILIES[settings.FIRST].manifest.read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    document["metadata"]["name"] = name
    spec = document["spec"]
    spec["vision"] = {"engine": vision_engine if on_gpu else "Torch"}
    for part in ("build", "runtime"):
        spec[part]["resources"]["limits"]["memory"] = "12Gi" if on_gpu else "4Gi"
    if on_gpu:
        spec["runtime"]["gpu"] = {"count": 1}
        limits = autoscaling.limited(CPU)
        spec["runtime"]["resources"]["limits"] |= limits["runtime"]["resources"]["limits"]
        spec["gateway"] = {**spec.get("gateway", {}), **limits["gateway"]}
    return document


def follow(target: Target, seconds: Seconds, name: str, timeout: float) -> None:
    """Take the time until each condition of a model holds."""
    for condition in ("Planned", "EngineBuilt", "Ready"):
        with seconds.of(condition):
            until(f"{condition} of {name}", lambda: holds(target, name, condition), timeout)  # noqa: B023


def answers(target: Target, name: str) -> dict[str, list[str]]:
    """Return the texts of every committed question, unary and streamed."""
    url = address(target, name)
    found: dict[str, list[str]] = {"unary": [], "streamed": []}
    with httpx.Client(timeout=60) as client:
        for one in samples():
            request = chat(url, name, one.question, [one.image.read_bytes()], tokens=24)
            found["unary"].append(send(client, request))
            body = {**request["json"], "stream": True}
            pieces = []
            with client.stream("POST", request["url"], json=body) as answer:
                answer.raise_for_status()
                for line in answer.iter_lines():
                    if line.startswith("data: {"):
                        choices = json.loads(line.removeprefix("data: "))["choices"]
                        pieces += [choices[0]["delta"].get("content") or ""] if choices else []
            found["streamed"].append("".join(pieces))
    return found


def compared(target: Target, model: str, there: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return how many answers are right, and equal to the processor's."""
    here = answers(target, model)
    right = [one.answer for one in samples()]
    return {
        "questions": len(right),
        **{
            f"{way}_{name}": sum(a == b for a, b in zip(here[way], wanted, strict=True))
            for way in here
            for name, wanted in (("right", right), ("equal_to_processor", there[way]))
        },
    }


def scaled(target: Target, seconds: Seconds) -> dict[str, Any]:
    """Return what the autoscaler did under load, and after it, and what kept clients saw of it."""
    mmctl = str(Path(sys.executable).parent / "mmctl")
    beside = Load(address(target, MODEL), MODEL, pause_seconds=2)  # a replica carries them easily
    try:
        with seconds.of("autoscaling"):
            done = autoscaling.walk(
                *(target, NAMESPACE, MODEL, lambda line: print(line, flush=True), mmctl),
                cpu=CPU,
                most=2,
                overload=OVERLOAD,
            )
    finally:
        beside.stop()
    return {
        "beside": dict(Counter(said for _, said, _ in beside.seen)),
        "replicas": done.replicas,
        "seconds": {name: round(one, 1) for name, one in done.seconds.items()},
        "requests_a_second": done.rate,
        "answered": done.answered,
        "failed": done.failed,
        "worst_goodput": done.worst_goodput,
        "last_goodput": done.last_goodput,
    }


def planned(target: Target, model: str) -> dict[str, Any]:
    """Return what the operator planned for one replica, and from which GPU."""
    plan = model_of(target, model)["status"]["plan"]
    return {name: plan.get(name) for name in ("gpu", "memory", "gpuMemory", "maxConcurrency")}


def images(session: Session, options: argparse.Namespace) -> None:
    """Make both images and load them into the node."""

    def report(line: str) -> None:
        print("         ", line, flush=True)

    if options.images == "machine":
        session.images |= make_images(options.pinned, options.tensorrt)
    else:
        preparation.make_base(session, report)
        for recipe in (OPERATOR, RUNTIME):
            preparation.make_image(session, recipe, report)
    for recipe in (OPERATOR, RUNTIME):
        preparation.load_image(session, recipe, report)


def uninstalled(target: Target) -> int:
    """Delete the models and the operator; return the processes left on the GPU between the two."""
    target.call("delete", "multimodalmodel", "--all", *WHERE, "--timeout=120s", timeout=150)
    until("no pod of a model", lambda: not pods(target, *WHERE))
    left = len(processes_on_gpu())
    teardown.uninstall(target)
    return left


def served(target: Target, engine: str, model: str, timeout: float) -> dict[str, Any]:
    """Wait until a model serves; return how long that took, and what was planned."""
    seconds = Seconds(f"{engine}: ")
    began = time.monotonic()
    follow(target, seconds, model, timeout)
    return {
        "seconds": seconds.taken,
        "apply_to_ready_seconds": round(time.monotonic() - began, 1),
        "planned": planned(target, model),
    }


def loaded(
    target: Target,
    seconds: Seconds,
    models: Mapping[str, str],
    results: dict[str, dict[str, Any]],
    options: argparse.Namespace,
) -> None:
    """Load the first model and strike the last one meanwhile; where it is one, strike first."""
    first, last = next(iter(models)), list(models)[-1]
    pool = ThreadPoolExecutor(1 if first == last else 2)
    try:
        striking = None
        if not options.no_faults:
            striking = pool.submit(faults, target, models[last], on_gpu=options.gpu != "none")
        load = None if options.no_load else pool.submit(scaled, target, seconds)
        if striking is not None:
            results[last] |= striking.result()
        if load is not None:
            results[first]["autoscaling"] = load.result()
    finally:  # one that is interrupted writes what it has
        pool.shutdown(wait=False)


def run(session: Session, options: argparse.Namespace, results: dict[str, dict[str, Any]]) -> None:
    """Do the main job; what was found so far is in the results, however it ends."""
    on_gpu, engines = options.gpu != "none", options.vision_engines
    models = dict(zip(engines, (MODEL, SECOND), strict=False))
    seconds = Seconds()
    results |= {engine: {"seconds": {}} for engine in engines}
    first = results[engines[0]]
    first["seconds"] = seconds.taken
    name = session.options.cluster
    with seconds.of("cluster"):
        found = cluster.up(
            cluster.ClusterOptions(name=name, gpu=options.gpu if on_gpu else None),
            lambda stage, detail: print("         ", stage, detail, flush=True),
        )
    target = session.found_target = Target(found.name, found.kubeconfig, found.kubectl)
    node = target.document("nodes")["items"][0]["metadata"]["labels"]
    for one in results.values():
        one["node_labels"] = {k: v for k, v in node.items() if k.startswith("nvidia.com/")}
    driver = Driver(target)
    try:
        with seconds.of("images"):
            images(session, options)
        with seconds.of("operator"):
            installation.install_operator(session, lambda _: None)
        with seconds.of("upload"):
            installation.upload_checkpoint(session, lambda _: None)
        for engine, model in models.items():
            target.apply(manifest(model, on_gpu=on_gpu, vision_engine=engine))
        if on_gpu:
            target.apply(manifest(REFERENCE, on_gpu=False, vision_engine=""))
        with ThreadPoolExecutor() as pool:
            waits = {
                engine: pool.submit(served, target, engine, model, options.timeout)
                for engine, model in models.items()
            }
            for engine, wait in waits.items():
                done = wait.result()
                results[engine]["seconds"] |= done.pop("seconds")
                results[engine] |= done
        if on_gpu:
            compare(target, seconds, models, results, options.timeout)
        loaded(target, seconds, models, results, options)
        with seconds.of("uninstall"):
            first["processes_on_gpu_after_the_models"] = uninstalled(target)
    except Exception:
        print(evidence_of(session, list(models.values())), flush=True)
        raise
    finally:
        driver.stop()
        with seconds.of("down"):
            cluster.down(name)
        for engine, one in results.items():
            # A build's Job is named after its engine, and counts where the first model's do.
            own = [other for other in models.values() if other != models[engine]]
            one["peak_bytes_by_container"] = {
                container: used
                for container, used in driver.peak.items()
                if not container.startswith(tuple(own))
            }
            one["processes_on_gpu_at_the_end"] = len(processes_on_gpu())


def compare(
    target: Target,
    seconds: Seconds,
    models: Mapping[str, str],
    results: dict[str, dict[str, Any]],
    timeout: float,
) -> None:
    """Note how the answers of each model are, and take the measure away."""
    until("Ready on the processor", lambda: holds(target, REFERENCE), timeout)
    with seconds.of("answers"):
        there = answers(target, REFERENCE)
        for engine, model in models.items():
            results[engine]["answers"] = compared(target, model, there)
    target.call("delete", "multimodalmodel", REFERENCE, *WHERE, "--wait=false")


def evidence_of(session: Session, models: Sequence[str]) -> str:
    """Return what the cluster knows of a failure."""
    from mm_devcluster.demo import evidence  # noqa: PLC0415 - read after a failure alone

    return "\n".join(evidence.gather(session.target, model) for model in models)


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "cluster.json")
    parser.add_argument("--name", default="gpu", help="of the cluster")
    parser.add_argument("--gpu", default=HOST, help=f"none, or as up --gpu has it ({HOST})")
    parser.add_argument("--images", choices=("own", "machine"), default="own")
    parser.add_argument("--pinned", type=Path, help="packages that go before the machine's own")
    parser.add_argument("--tensorrt", type=Path, help="folder with lib and site of TensorRT")
    parser.add_argument(
        "--vision-engines", nargs="+", choices=("Torch", "TensorRT"), default=["Torch"]
    )
    parser.add_argument("--no-load", action="store_true", help="leave the autoscaler out")
    parser.add_argument("--no-faults", action="store_true", help="leave faults out")
    parser.add_argument("--timeout", type=float, default=WAIT_SECONDS, help="of each condition")
    options = parser.parse_args()
    session = Session(settings.Options(cluster=options.name))
    results: dict[str, dict[str, Any]] = {}
    failed = False
    try:
        run(session, options, results)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - what was found so far is kept
        failed = True
        for one in results.values():
            one["error"] = str(error)[-2000:] or type(error).__name__
    runs = {f"vision engine {engine}": one for engine, one in results.items()}
    write(options.out, "python bench/gpu/cluster.py", {"runs": runs})
    sys.exit(failed)


if __name__ == "__main__":
    main()
