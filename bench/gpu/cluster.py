"""The main job in a Kubernetes with a GPU: from `kubectl apply` to nothing left on the GPU.

    python bench/gpu/cluster.py --images machine --pinned FOLDER --tensorrt FOLDER \
        --vision-engines Torch TensorRT
    python bench/gpu/cluster.py --gpu none          a rehearsal on the processor, the demo's images

    python bench/gpu/cluster.py --shape 7b          shorter, without a twin: cluster_shapes.py

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
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from cluster_faults import faults
from cluster_models import (
    NAMESPACE,
    WHERE,
    Question,
    address,
    answers,
    holds,
    on_gpu_by_pod,
    until,
)
from cluster_shapes import run_shape
from cluster_stages import (
    Driver,
    Seconds,
    add_options,
    evidence_of,
    follow,
    images,
    install,
    node_labels,
    planned,
    start,
    uninstalled,
)
from faults import Load
from gpu_record import RESULTS, write

from mm_devcluster import cluster
from mm_devcluster.demo import autoscaling, installation, settings
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from support.tiny_llava import samples

MODEL, REFERENCE = settings.MODEL, "on-the-processor"
SECOND = "on-another-engine"
HOST = "host,replicas=4"
CPU = "3"
"""Of a replica under load: its start must not take minutes, and 16 cores carry two and clients."""
OVERLOAD = 1.25
"""Times what a replica answers: what queues while the second one starts is gone half a minute later
(at 1.5 it took two)."""


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


def questions() -> list[Question]:
    """Return every committed question."""
    return [(one.question, one.image.read_bytes()) for one in samples()]


def compared(target: Target, model: str, there: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return how many answers are right, and equal to the processor's."""
    here = answers(address(target, model), model, questions())
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
    target = start(session, seconds, options.gpu if on_gpu else None)
    for one in results.values():
        one["node_labels"] = node_labels(target)
    driver = Driver(target)
    try:
        with seconds.of("images"):
            first["images"] = images(session, options)
        install(session, seconds)
        with seconds.of("upload"):
            installation.make_namespaces(session, lambda _: None)
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
            cluster.down(session.options.cluster)
        for engine, one in results.items():
            # A build's Job is named after its engine, and counts where the first model's do.
            own = [other for other in models.values() if other != models[engine]]
            one["peak_bytes_by_container"] = {
                container: used
                for container, used in driver.peak.items()
                if not container.startswith(tuple(own))
            }
            one["peak_bytes_by_process"] = {
                container: driver.processes[container]
                for container in one["peak_bytes_by_container"]
            }
            one["processes_on_gpu_at_the_end"] = len(on_gpu_by_pod())


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
        there = answers(address(target, REFERENCE), REFERENCE, questions())
        for engine, model in models.items():
            results[engine]["answers"] = compared(target, model, there)
    target.call("delete", "multimodalmodel", REFERENCE, *WHERE, "--wait=false")


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="results/cluster.json, or cluster_SHAPE.json")
    add_options(parser)
    parser.add_argument(
        "--vision-engines", nargs="+", choices=("Torch", "TensorRT"), default=["Torch"]
    )
    parser.add_argument("--shape", help="of checkpoints.py, on a GPU of its own; no twin")
    parser.add_argument("--gpu", help=f"none, or as up --gpu has it ({HOST}; of a shape host)")
    parser.add_argument("--no-load", action="store_true", help="leave the autoscaler out")
    parser.add_argument("--no-faults", action="store_true", help="leave faults out")
    options = parser.parse_args()
    options.gpu = options.gpu or ("host" if options.shape else HOST)
    name = f"cluster_{options.shape}" if options.shape else "cluster"
    out = options.out or RESULTS / f"{name}.json"
    session = Session(settings.Options(cluster=options.name))
    results: dict[str, dict[str, Any]] = {}
    failed = False
    try:
        if options.shape:
            run_shape(session, options, results)
        else:
            run(session, options, results)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - what was found so far is kept
        failed = True
        for one in results.values():
            one["error"] = str(error)[-2000:] or type(error).__name__
    runs = {f"vision engine {engine}": one for engine, one in results.items()}
    write(out, "python bench/gpu/cluster.py", {"runs": runs})
    sys.exit(failed)


if __name__ == "__main__":
    main()
