"""The main job in a Kubernetes with a GPU: from `kubectl apply` to nothing left on the GPU.

    python bench/gpu/cluster.py --images machine --pinned FOLDER [--vision-engine TensorRT]
    python bench/gpu/cluster.py --gpu none          a rehearsal on the processor, the demo's images

Starts a development cluster with the machine's GPU for four pods in turns, installs the chart and
applies tiny-llava twice: on the GPU, and on the processor, whose answers are the measure. Every
committed question is sent to both, unary and streamed. Then load until the autoscaler has added a
replica, and none until it is gone; SIGKILL for each process of a server, a deleted pod, and a node
that loses its GPU, beside clients that send without pause; last, everything is removed. The driver
is read four times a second: each container's peak stands beside what was planned.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml
from faults import Load
from gpu_record import RESULTS, processes_on_gpu, write
from machine_images import make_images
from sites import chat, send

from mm_api.hosts import bracketed
from mm_devcluster import cluster
from mm_devcluster.demo import autoscaling, installation, preparation, settings, teardown, walk
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.catalogue import OPERATOR, RUNTIME
from mm_devcluster.layout import Layout
from mm_devcluster.paths import cluster_dir
from support.tiny_llava import samples

NAMESPACE, MODEL, REFERENCE = settings.DEMO_NAMESPACE, settings.MODEL, "on-the-processor"
WHERE = ("--namespace", NAMESPACE)
HOST = "host,replicas=4"
MIB = 1 << 20
READ_SECONDS = 0.25
WAIT_SECONDS = 240.0
POD = re.compile(r"pod([0-9a-f_-]{36})/([0-9a-f]{64})")
KILLED = ("tensorrt_llm", "multimodal_encoders", "tritonserver", "gateway")
CPU = "3"
"""Of a replica under load: its start must not take minutes, and 16 cores carry two and clients."""


class Seconds:
    """How long each stage took."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Take the time of a block; print it."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.taken[stage] = round(time.monotonic() - began, 1)
            print(f"{self.taken[stage]:7.1f} s  {stage}", flush=True)


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


def pods(target: Target, *arguments: str) -> list[dict[str, Any]]:
    """Return pods."""
    found: list[dict[str, Any]] = target.document("pods", *arguments).get("items", [])
    return found


def serving_pods(target: Target, model: str) -> list[dict[str, Any]]:
    """Return the pods that serve a model, the oldest first."""
    selector = f"app.kubernetes.io/component=server,app.kubernetes.io/instance={model}"
    found = pods(target, *WHERE, "-l", selector)
    return sorted(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))


def manifest(name: str, *, on_gpu: bool, vision_engine: str) -> dict[str, Any]:
    """Return tiny-llava as the example has it, on the GPU or on the processor."""
    text = settings.FAMILIES[settings.FIRST].manifest.read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    document["metadata"]["name"] = name
    spec = document["spec"]
    spec["vision"] = {"engine": vision_engine if on_gpu else "Torch"}
    for part in ("build", "runtime"):
        spec[part]["resources"]["limits"]["memory"] = "12Gi" if on_gpu else "4Gi"
    if on_gpu:
        spec["runtime"]["gpu"] = {"count": 1}
    return document


def model_of(target: Target, name: str) -> dict[str, Any]:
    """Return a model."""
    return target.document("multimodalmodel", name, *WHERE)


def until(what: str, is_so: Callable[[], bool], seconds: float = WAIT_SECONDS) -> float:
    """Wait until something holds; return how long that took.

    Raises:
        DevClusterError: it does not in time.
    """
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > seconds:
            raise DevClusterError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.2)
    return round(time.monotonic() - began, 1)


def holds(target: Target, name: str, condition: str = "Ready") -> bool:
    """Return whether a condition of a model's present spec holds."""
    return walk.conditions_of(model_of(target, name)).get(condition, walk.NOT_THERE).holds


def follow(target: Target, seconds: Seconds, name: str, timeout: float) -> None:
    """Take the time until each condition of a model holds."""
    for condition in ("Planned", "EngineBuilt", "Ready"):
        with seconds.of(condition):
            until(f"{condition} of {name}", lambda: holds(target, name, condition), timeout)  # noqa: B023


def address(target: Target, name: str) -> str:
    """Return where a model answers: the machine has routes to Services."""
    service = target.document("service", name, *WHERE)
    return f"http://{bracketed(service['spec']['clusterIP'])}"


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


def compared(target: Target) -> dict[str, Any]:
    """Return how many answers are right, and equal to the processor's."""
    here, there = answers(target, MODEL), answers(target, REFERENCE)
    right = [one.answer for one in samples()]
    return {
        "questions": len(right),
        **{
            f"{way}_{name}": sum(a == b for a, b in zip(here[way], wanted, strict=True))
            for way in here
            for name, wanted in (("right", right), ("equal_to_processor", there[way]))
        },
    }


def server_processes(target: Target, model: str) -> dict[str, int]:
    """Return the processes of a model's first pod: a Triton model's or a program's name -> id."""
    uid = serving_pods(target, model)[0]["metadata"]["uid"]
    found: dict[str, int] = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if not folder.name.isdecimal() or uid not in (folder / "cgroup").read_text():
                continue
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            models = [word.split("/")[-3] for word in words if word.endswith("/model.py")]
            program = Path(words[0]).name
            name = models[0] if models else "gateway" if "gateway" in words else program
            found.setdefault(name, int(folder.name))
    return found


def struck(load: Load, strike: Callable[[], None]) -> dict[str, Any]:
    """Return what clients see around one fault."""
    load.wait_right(time.monotonic())
    before = sum(processes_on_gpu().values())
    at = time.monotonic()
    strike()
    until("a client that notices", lambda: any(t > at and s != "200" for t, s, _ in load.seen))
    back = load.wait_right(at)
    during = [one for one in load.seen if at < one[0] < back and one[1] != "200"]
    return {
        "statuses": dict(Counter(said for _, said, _ in during)),
        "unavailable_without_retry_after": sum(
            said == "503" and not waits for _, said, waits in during
        ),
        "back_seconds": round(back - at, 1),
        "gpu_mib_before": before // MIB,
        "gpu_mib_after": sum(processes_on_gpu().values()) // MIB,
    }


def delete_pod(target: Target) -> None:
    """Delete the oldest pod of the model, as an eviction would."""
    name = serving_pods(target, MODEL)[0]["metadata"]["name"]
    target.call("delete", "pod", name, *WHERE, "--wait=false")


def allocatable(target: Target) -> int:
    """Return the GPUs that the node offers."""
    node = target.document("nodes")["items"][0]
    return int(node["status"]["allocatable"].get("nvidia.com/gpu", "0"))


def lose_gpu(target: Target, said: list[str]) -> None:
    """Let the node lose its GPU and a pod its place; note what is said; give the GPU back."""
    config = Layout(cluster_dir(target.name)).device_plugin
    away = config.with_suffix(".away")
    before = allocatable(target)
    config.rename(away)
    try:
        cluster.restart_part(target.name, "nvidia-device-plugin")
        until("the node without a GPU", lambda: allocatable(target) == 0)
        delete_pod(target)

        def pending() -> bool:
            found = [one for one in serving_pods(target, MODEL) if is_unschedulable(one)]
            said[:] = [is_unschedulable(one) for one in found]
            return bool(found)

        until("a pod that finds no GPU", pending)
        until("a model that says so", lambda: not holds(target, MODEL))
        conditions = walk.conditions_of(model_of(target, MODEL))
        said += [f"{name} {one.reason}: {one.message}" for name, one in conditions.items()]
    finally:
        away.rename(config)
    until("the node with its GPU", lambda: allocatable(target) == before)


def is_unschedulable(pod: Mapping[str, Any]) -> str:
    """Return why no node takes a pod; empty: one does."""
    for one in pod["status"].get("conditions", ()):
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return str(one.get("message", ""))
    return ""


def faults(target: Target, *, on_gpu: bool) -> dict[str, Any]:
    """Return what clients see when something dies: each is tried, whatever became of another."""
    said: list[str] = []

    def kill(name: str) -> None:
        os.kill(server_processes(target, MODEL)[name], signal.SIGKILL)

    strikes: dict[str, Callable[[], None]] = {
        f"kill {name}": lambda name=name: kill(name)  # type: ignore[misc]
        for name in KILLED
    }
    strikes["pod deleted"] = lambda: delete_pod(target)
    if on_gpu:
        strikes["GPU taken away"] = lambda: lose_gpu(target, said)
    found: dict[str, Any] = {}
    load = Load(address(target, MODEL), MODEL)
    try:
        for name, strike in strikes.items():
            try:
                found[name] = struck(load, strike)
            except (DevClusterError, TimeoutError, LookupError, OSError) as error:
                found[name] = {"error": f"{type(error).__name__}: {error}"}
            print(name, found[name], flush=True)
    finally:
        load.stop()
    return {"faults": found, "said_without_gpu": said}


def scaled(target: Target, seconds: Seconds) -> dict[str, Any]:
    """Return what the autoscaler did under load, and after it."""
    mmctl = str(Path(sys.executable).parent / "mmctl")
    with seconds.of("autoscaling"):
        done = autoscaling.walk(
            target, NAMESPACE, MODEL, lambda line: print(line, flush=True), mmctl, cpu=CPU, most=2
        )
    return {
        "replicas": done.replicas,
        "seconds": {name: round(one, 1) for name, one in done.seconds.items()},
        "requests_a_second": done.rate,
        "answered": done.answered,
        "failed": done.failed,
        "worst_goodput": done.worst_goodput,
        "last_goodput": done.last_goodput,
    }


def planned(target: Target) -> dict[str, Any]:
    """Return what the operator planned for one replica, and from which GPU."""
    plan = model_of(target, MODEL)["status"]["plan"]
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


def uninstalled(target: Target, result: dict[str, Any]) -> None:
    """Delete the models and the operator; note what is left on the GPU."""
    target.call("delete", "multimodalmodel", "--all", *WHERE, "--timeout=120s", timeout=150)
    until("no pod of a model", lambda: not pods(target, *WHERE))
    result["processes_on_gpu_after_the_models"] = len(processes_on_gpu())
    teardown.uninstall(target)


def run(session: Session, options: argparse.Namespace, result: dict[str, Any]) -> None:
    """Do the main job; what was found so far is in the result, however it ends."""
    seconds, on_gpu = Seconds(), options.gpu != "none"
    result["seconds"] = seconds.taken
    name = session.options.cluster
    with seconds.of("cluster"):
        found = cluster.up(
            cluster.ClusterOptions(name=name, gpu=options.gpu if on_gpu else None),
            lambda stage, detail: print("         ", stage, detail, flush=True),
        )
    target = session.found_target = Target(found.name, found.kubeconfig, found.kubectl)
    node = target.document("nodes")["items"][0]["metadata"]["labels"]
    result["node_labels"] = {k: v for k, v in node.items() if k.startswith("nvidia.com/")}
    with seconds.of("images"):
        images(session, options)
    driver = Driver(target)
    try:
        with seconds.of("operator"):
            installation.install_operator(session, lambda _: None)
        with seconds.of("upload"):
            installation.upload_checkpoint(session, lambda _: None)
        began = time.monotonic()
        for model in (MODEL, REFERENCE) if on_gpu else (MODEL,):
            engine = options.vision_engine
            target.apply(manifest(model, on_gpu=on_gpu and model == MODEL, vision_engine=engine))
        follow(target, seconds, MODEL, options.timeout)
        result["apply_to_ready_seconds"] = round(time.monotonic() - began, 1)
        result["planned"] = planned(target)
        if on_gpu:
            until("Ready on the processor", lambda: holds(target, REFERENCE), options.timeout)
            with seconds.of("answers"):
                result["answers"] = compared(target)
            target.call("delete", "multimodalmodel", REFERENCE, *WHERE)
        if not options.no_faults:
            result |= faults(target, on_gpu=on_gpu)
        if not options.no_load:
            result["autoscaling"] = scaled(target, seconds)
        with seconds.of("uninstall"):
            uninstalled(target, result)
    except Exception:
        print(evidence_of(session), flush=True)
        raise
    finally:
        driver.stop()
        result["peak_bytes_by_container"] = driver.peak
        with seconds.of("down"):
            cluster.down(name)
        result["processes_on_gpu_at_the_end"] = len(processes_on_gpu())


def evidence_of(session: Session) -> str:
    """Return what the cluster knows of a failure."""
    from mm_devcluster.demo import evidence  # noqa: PLC0415 - read after a failure alone

    return evidence.gather(session.target, MODEL)


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "cluster.json")
    parser.add_argument("--name", default="gpu", help="of the cluster")
    parser.add_argument("--gpu", default=HOST, help=f"none, or as up --gpu has it ({HOST})")
    parser.add_argument("--images", choices=("own", "machine"), default="own")
    parser.add_argument("--pinned", type=Path, help="packages that go before the machine's own")
    parser.add_argument("--tensorrt", type=Path, help="folder with lib and site of TensorRT")
    parser.add_argument("--vision-engine", choices=("Torch", "TensorRT"), default="Torch")
    parser.add_argument("--no-load", action="store_true", help="leave the autoscaler out")
    parser.add_argument("--no-faults", action="store_true", help="leave faults out")
    parser.add_argument("--timeout", type=float, default=WAIT_SECONDS, help="of each condition")
    options = parser.parse_args()
    session = Session(settings.Options(cluster=options.name))
    key = f"vision engine {options.vision_engine}"
    result: dict[str, Any] = {}
    try:
        run(session, options, result)
    except (DevClusterError, KeyboardInterrupt) as error:  # what was found so far is kept
        result["error"] = str(error)[-2000:] or type(error).__name__
    before = json.loads(options.out.read_text())["runs"] if options.out.is_file() else {}
    write(options.out, "python bench/gpu/cluster.py", {"runs": {**before, key: result}})
    sys.exit("error" in result)


if __name__ == "__main__":
    main()
