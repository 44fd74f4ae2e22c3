"""Two GPUs of one host in a Kubernetes: a unit on each, and an encoder on a card of its own.

    python bench/gpu/two_pods.py --images machine --pinned FOLDER --tensorrt FOLDER
    python bench/gpu/two_pods.py --shape toy --gpu none          a rehearsal on the processor

Backend Reference. The first model has two replicas, a card each; the second one has
`vision.placement: Disaggregated`, its engine is the first one's, and its pods get the cards when
the first model is deleted. Each pod's server has to see one card, and no two the same.

Measured as in two.py, one after the other: first texts of new images, images a second, the pauses
of eight streams alone and beside four image clients; of one replica, of two replicas, and of a
server with its encoder. The result is written after each, so that a run may be cut off.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from checkpoints import SHAPES
from cluster_models import WHERE, Question, answers, holds, pods, serving_pods, until
from cluster_shapes import (
    checkpoint_made,
    equal,
    gpus_seen,
    manifest,
    put_into_claim,
    questions,
    url_of,
)
from cluster_stages import (
    BUILT,
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
from gpu_record import RESULTS, processes_on_gpu, write
from placed import Unit
from two import beside_images, first_texts, images_a_second, tried

from mm_devcluster import cluster
from mm_devcluster.demo import settings
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from mm_runtime.serving.metrics.collected import COLLECTED_SECONDS

ALIKE, DISAGGREGATED = "alike", "disaggregated"
GOALS = {
    "first_text": ("<=", 1.15),
    "p95_beside_images": ("<=", 1.1),
    "images_a_second": (">=", 1.5),
    "images_a_second_of_two_units": (">=", 1.9),
}
"""Of an encoder's own card, as a ratio to one card's; the second is to streams alone."""


class Record:
    """What is known, on disk after each addition."""

    def __init__(self, out: Path, shape: str, seconds: Seconds) -> None:
        self.found: dict[str, Any] = {"shape": shape, "seconds": seconds.taken}
        self._out = out

    def add(self, name: str, value: object) -> None:
        """Keep and write a value."""
        self.found[name] = value
        write(self._out, "python bench/gpu/two_pods.py", self.found)


@dataclass(frozen=True)
class Bench:
    """What both halves of the measurement work with."""

    target: Target
    record: Record
    seconds: Seconds
    queries: list[Question]
    options: argparse.Namespace


def cards(target: Target, found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the card of each pod.

    Raises:
        AssertionError: a pod sees another number of cards than one, or two see the same.
    """
    seen = {name: gpus_seen(target, pod) for name, pod in found.items()}
    numbers = {name: len(ids) for name, ids in seen.items()}
    assert set(numbers.values()) == {1}, f"a pod sees other than one card: {seen}"
    different = len({ids[0] for ids in seen.values()})
    assert different == len(seen), f"pods share a card: {seen}"
    return {"seen_by_each": numbers, "different": different}


def measured(
    record: Record, name: str, unit: Unit, side: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Return what one unit does; kept after each measurement."""
    found: dict[str, Any] = {}

    def taken(what: str, call: Callable[[], object]) -> None:
        found[what] = tried(f"{name}: {what}", call)
        record.add(name, found)

    taken("first_text_ms", lambda: first_texts({name: unit}, side, options.requests)[name])
    taken("images_a_second", lambda: images_a_second([unit], side, options))
    taken("streams", lambda: beside_images(unit, side, options))
    return found


def encoded_by(pod: Mapping[str, Any]) -> dict[str, float]:
    """Return how many images were encoded by encoders, and by the server itself."""
    found: dict[str, float] = {}
    for line in httpx.get(f"{url_of(pod)}/metrics", timeout=30).text.splitlines():
        if line.startswith("mm_encoder_requests_total{"):
            labels, _, value = line.partition("} ")
            by = labels.partition('by="')[2].partition('"')[0]
            found[by] = found.get(by, 0.0) + float(value)
    return found


def compared(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return ratios beside their goals."""
    one, split = found["one"], found[DISAGGREGATED]
    ratios = {
        "first_text": split["first_text_ms"]["p50"] / one["first_text_ms"]["p50"],
        "p95_beside_images": split["streams"]["p95_ratio"],
        "images_a_second": split["images_a_second"] / one["images_a_second"],
        "images_a_second_of_two_units": found["two_units"] / one["images_a_second"],
    }
    return {
        name: {"ratio": round(ratio, 3), "goal": " ".join(map(str, GOALS[name]))}
        for name, ratio in ratios.items()
    }


def alike(bench: Bench) -> list[str]:
    """Measure one of two replicas, and both; return the answers of the first."""
    target, record, options = bench.target, bench.record, bench.options
    on_gpu, side = options.gpu != "none", SHAPES[options.shape].side
    until("two pods", lambda: len(serving_pods(target, ALIKE)) == 2)  # noqa: PLR2004
    both = serving_pods(target, ALIKE)
    if on_gpu:
        record.add("cards_alike", cards(target, {one["metadata"]["name"]: one for one in both}))
    units = [Unit(url_of(one), ALIKE) for one in both]
    with bench.seconds.of("answers of two replicas"):
        here, there = (answers(unit.url, ALIKE, bench.queries) for unit in units)
    record.add(
        "answers_alike",
        {
            "streamed_equal_to_unary": equal(here["streamed"], here["unary"]),
            "other_replica_equal": equal(there["unary"], here["unary"]),
        },
    )
    measured(record, "one", units[0], side, options)
    with bench.seconds.of("two units"):
        record.add("two_units", tried("images", lambda: images_a_second(units, side, options)))
    return here["unary"]


def disaggregated(bench: Bench, first: list[str]) -> None:
    """Measure a server beside its encoder; `first`: the answers of another server."""
    target, record, options = bench.target, bench.record, bench.options
    target.call("delete", "multimodalmodel", ALIKE, *WHERE, "--wait=false")
    with bench.seconds.of("encoder and server Ready"):
        for condition in ("Ready", "EncodersReady"):
            until(condition, lambda: holds(target, DISAGGREGATED, condition), options.timeout)  # noqa: B023
    server = serving_pods(target, DISAGGREGATED)[-1]
    encoder = serving_pods(target, DISAGGREGATED, "encoder")[-1]
    if options.gpu != "none":
        record.add("cards_disaggregated", cards(target, {"server": server, "encoder": encoder}))
    unit = Unit(url_of(server), DISAGGREGATED)
    with bench.seconds.of("encoder known to its server"):
        known = encoded_by(server).get("encoders", 0)

        def used() -> bool:
            answers(unit.url, DISAGGREGATED, bench.queries[:1])
            time.sleep(1)
            return encoded_by(server).get("encoders", 0) > known

        until("an image encoded by the encoder", used, options.timeout)
        time.sleep(2 * COLLECTED_SECONDS)
    before = encoded_by(server)
    texts = answers(unit.url, DISAGGREGATED, bench.queries)["unary"]
    record.add("answers_disaggregated_equal", equal(texts, first))
    measured(record, DISAGGREGATED, unit, SHAPES[options.shape].side, options)
    time.sleep(2 * COLLECTED_SECONDS)
    after = encoded_by(server)
    record.add("encoded_by", {by: count - before.get(by, 0) for by, count in after.items()})


def run(session: Session, options: argparse.Namespace, seconds: Seconds, record: Record) -> None:
    """Do all; what was found so far is written, however it ends."""
    on_gpu, shape = options.gpu != "none", options.shape
    device = "cuda" if on_gpu else "cpu"
    with checkpoint_made(shape, options.checkpoints, device) as writing:
        target = start(session, seconds, options.gpu if on_gpu else None)
        record.add("node_labels", node_labels(target))
        driver = Driver(target)
        try:
            with seconds.of("images"):
                record.add("images", images(session, options))
            install(session, seconds)
            with seconds.of("checkpoint"):
                assert not writing.wait(options.timeout), "checkpoints.py failed"
                put_into_claim(target, options.checkpoints / shape)
            build = {"evaluation": options.evaluation}
            target.apply(manifest(ALIKE, shape, on_gpu=on_gpu, build=build, replicas=2))
            follow(target, seconds, ALIKE, options.timeout, BUILT)
            resources = {"requests": {"memory": "1Gi"}, "limits": {"memory": "16Gi"}}
            vision = {"placement": "Disaggregated", "resources": resources}
            target.apply(manifest(DISAGGREGATED, shape, on_gpu=on_gpu, build=build, vision=vision))
            follow(target, seconds, ALIKE, options.timeout, ("Ready",))
            record.add("planned", planned(target, ALIKE))
            bench = Bench(target, record, seconds, questions(shape), options)
            disaggregated(bench, alike(bench))
            record.add("planned_disaggregated", planned(target, DISAGGREGATED))
            record.add("compared", tried("compared", lambda: compared(record.found)))
            with seconds.of("uninstall"):
                record.add("processes_on_gpu_after_the_models", uninstalled(target))
        except Exception:
            print(evidence_of(session, [ALIKE, DISAGGREGATED]), flush=True)
            print([one["metadata"]["name"] for one in pods(target, *WHERE)], flush=True)
            raise
        finally:
            driver.stop()
            with seconds.of("down"):
                cluster.down(session.options.cluster)
            record.add("peak_bytes_by_container", driver.peak)
            record.add("peak_bytes_by_process", driver.processes)
            record.add("processes_on_gpu_at_the_end", len(processes_on_gpu()))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "two_pods.json")
    add_options(parser)
    parser.add_argument("--gpu", default="host", help="none, or as up --gpu has it")
    parser.add_argument("--shape", default="7b", help="of checkpoints.py")
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--most", type=int, default=160, help="images a second that are made")
    options = parser.parse_args()
    seconds = Seconds()
    record = Record(options.out, options.shape, seconds)
    try:
        run(Session(settings.Options(cluster=options.name)), options, seconds, record)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - what was found so far is kept
        record.add("error", str(error)[-2000:] or type(error).__name__)
        sys.exit(1)


if __name__ == "__main__":
    main()
