"""What clients of a model in a cluster see when a process, a pod or the node's GPU goes."""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from cluster_models import WHERE, address, holds, model_of, serving_pods, until, used_by
from faults import Load, fault

from mm_devcluster import cluster
from mm_devcluster.demo import walk
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError
from mm_devcluster.layout import Layout
from mm_devcluster.paths import cluster_dir

KILLED = ("tensorrt_llm", "multimodal_encoders", "tritonserver", "gateway")


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


def struck(target: Target, model: str, load: Load, strike: Callable[[], None]) -> dict[str, Any]:
    """Return what clients see around one fault."""
    return fault(load, partial(used_by, target, model), strike)


def delete_pod(target: Target, model: str) -> None:
    """Delete the oldest pod of the model, as an eviction would."""
    name = serving_pods(target, model)[0]["metadata"]["name"]
    target.call("delete", "pod", name, *WHERE, "--wait=false")


def drain(target: Target, model: str) -> None:
    """Drain the node of the model's pods; they come back to it, as there is no other."""
    node = target.document("nodes")["items"][0]["metadata"]["name"]
    selector = f"--pod-selector=app.kubernetes.io/instance={model}"
    try:
        target.call(
            *("drain", node, selector, "--delete-emptydir-data", "--ignore-daemonsets"),
            "--timeout=90s",
            timeout=120,
        )
    finally:
        target.call("uncordon", node)


def allocatable(target: Target) -> int:
    """Return the GPUs that the node offers."""
    node = target.document("nodes")["items"][0]
    return int(node["status"]["allocatable"].get("nvidia.com/gpu", "0"))


def lose_gpu(target: Target, model: str, said: list[str]) -> None:
    """Let the node lose its GPU and a pod its place; note what is said; give the GPU back."""
    config = Layout(cluster_dir(target.name)).device_plugin
    away = config.with_suffix(".away")
    before = allocatable(target)
    config.rename(away)
    try:
        cluster.restart_part(target.name, "nvidia-device-plugin")
        until("the node without a GPU", lambda: allocatable(target) == 0)
        delete_pod(target, model)

        def pending() -> bool:
            found = [one for one in serving_pods(target, model) if is_unschedulable(one)]
            said[:] = [is_unschedulable(one) for one in found]
            return bool(found)

        until("a pod that finds no GPU", pending)
        until("a model that says so", lambda: not holds(target, model))
        conditions = walk.conditions_of(model_of(target, model))
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


def faults(target: Target, model: str, *, on_gpu: bool) -> dict[str, Any]:
    """Return what clients see when something dies: each is tried, whatever became of another."""
    said: list[str] = []

    def kill(name: str) -> None:
        os.kill(server_processes(target, model)[name], signal.SIGKILL)

    strikes: dict[str, Callable[[], None]] = {
        f"kill {name}": lambda name=name: kill(name)  # type: ignore[misc]
        for name in KILLED
    }
    strikes["pod deleted"] = lambda: delete_pod(target, model)
    strikes["node drained"] = lambda: drain(target, model)
    if on_gpu:
        strikes["GPU taken away"] = lambda: lose_gpu(target, model, said)
    found: dict[str, Any] = {}
    load = Load(address(target, model), model)
    try:
        for name, strike in strikes.items():
            try:
                found[name] = struck(target, model, load, strike)
            except (DevClusterError, TimeoutError, LookupError, OSError) as error:
                found[name] = {"error": f"{type(error).__name__}: {error}"}
            print(name, found[name], flush=True)
    finally:
        load.stop()
    return {"faults": found, "said_without_gpu": said}
