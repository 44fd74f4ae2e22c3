"""docs/design/gpu-results-cluster.md: the main job in a cluster with a GPU."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_result_tables import table
from mm_api.sentences import count

MIB: Final = 1 << 20
STAGES: Final = {
    "cluster": "cluster with the GPU",
    "images": "images packed and loaded",
    "operator": "operator installed",
    "upload": "checkpoint uploaded",
    "Planned": "inspected and planned",
    "EngineBuilt": "engine built",
    "Ready": "pods Ready",
    "autoscaling": "load, a second replica and back",
    "uninstall": "everything deleted",
}


MORE: Final = {
    "checkpoint": "checkpoint written",
    "answers": "answers, one at a time",
    "another pod": "another pod Ready after one was deleted",
}


def cluster(result: dict[str, Any]) -> Iterator[str]:
    """Yield what one main job after another took, answered and survived."""
    yield "tiny-llava on the node of a development cluster with the machine's GPU for four pods in"
    yield "turns, NVIDIA's device plugin, pods without privileges. The driver is read four times a"
    yield "second; planned are the bytes of one replica."
    yield ""
    runs: Mapping[str, dict[str, Any]] = result["runs"]
    yield from table(
        ["seconds", *runs],
        [
            [title, *(one["seconds"].get(stage, "-") for one in runs.values())]
            for stage, title in STAGES.items()
        ],
    )
    for name, one in runs.items():
        yield ""
        yield from _run(name, one)
    if notes := result.get("notes"):
        yield ""
        yield from (f"- {note}" for note in notes)


def shape(result: dict[str, Any]) -> Iterator[str]:
    """Yield the main job of one larger model on a GPU of its own."""
    for name, one in result["runs"].items():
        yield f"Shape {one['shape']} of `bench/gpu/checkpoints.py` with random weights, {name}."
        yield ""
        rows: list[list[object]] = [
            [title, one["seconds"][key]]
            for key, title in {**STAGES, **MORE}.items()
            if key in one["seconds"]
        ]
        yield from table(["stage", "seconds"], rows)
        yield ""
        if found := one.get("answers"):
            yield f"Streamed answers equal to unary ones: {found['streamed_equal_to_unary']};"
            yield f"of the pod after a deleted one: {found['another_pod_equal']}."
            yield ""
        yield from _run(name, {key: value for key, value in one.items() if key != "answers"})
        yield ""
        yield from processes(one)
        if (record := one.get("images")) and "steps" in record:
            yield ""
            yield f"The {record['steps']} steps of `{record['file']}` made the runtime's image,"
            yield "with the machine's system, torch and packages in place of what is fetched."


def processes(one: dict[str, Any]) -> Iterator[str]:
    """Yield what the driver counted for each process of each container."""
    rows: list[list[object]] = [
        [container, process, f"{used // MIB:,}"]
        for container, found in one["peak_bytes_by_process"].items()
        for process, used in found.items()
    ]
    yield from table(["container", "process", "MiB at most"], rows)


def _run(name: str, one: dict[str, Any]) -> Iterator[str]:
    labels, found = one["node_labels"], one.get("answers")
    said = [
        f"{name[0].upper()}{name[1:]}: planned for {labels['nvidia.com/gpu.product']}, by the",
        f"labels of the node {labels['nvidia.com/gpu.memory']} MiB for",
        f"{count(int(labels['nvidia.com/gpu.replicas']), 'pod')}.",
    ]
    if found:
        said += [
            f"Right were {found['unary_right']} of {found['questions']} answers, streamed",
            f"{found['streamed_right']}; {found['unary_equal_to_processor']} and",
            f"{found['streamed_equal_to_processor']} were those of the processor.",
        ]
    planned = sum(gpu["totalBytes"] for gpu in (one.get("planned") or {}).get("gpuMemory") or ())
    peaks = one["peak_bytes_by_container"].items()
    most = max((used for container, used in peaks if "server" in container), default=0)
    if planned and most:
        said += [
            f"Planned were {planned // MIB:,} MiB for a server; the driver counted at most",
            f"{most // MIB:,} MiB ({planned / most:.3f}).",
        ]
    if scaled := one.get("autoscaling"):
        times = ", ".join(f"{what} after {s} s" for what, s in scaled["seconds"].items())
        said += [
            f"Under {scaled['requests_a_second']} requests a second replicas went",
            f"{' -> '.join(map(str, scaled['replicas']))} ({times}); {scaled['answered']:,}",
            f"requests were answered, failed: {', '.join(scaled['failed']) or 'none'}.",
        ]
    if (left := one.get("processes_on_gpu_at_the_end")) is not None:
        said += [f"At the end {left or 'no'} processes were left on the GPU."]
    yield " ".join(said)
    if "faults" in one:
        yield ""
        yield from table(
            ["fault", "clients saw", "right again after", "MiB before", "after"],
            [_fault(fault, seen) for fault, seen in one["faults"].items()],
        )
    if "error" in one:
        yield ""
        yield f"It ended with: {one['error'].splitlines()[0]}"


def _fault(name: str, seen: dict[str, Any]) -> list[object]:
    if "error" in seen:
        return [name, seen["error"], "-", "-", "-"]
    statuses = ", ".join(f"{number} x {status}" for status, number in seen["statuses"].items())
    after = f"{seen['back_seconds']} s"
    return [name, statuses, after, f"{seen['gpu_mib_before']:,}", f"{seen['gpu_mib_after']:,}"]
