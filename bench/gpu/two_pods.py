"""Two GPUs of one host in a Kubernetes: a unit on each, and an encoder on a card of its own.

    python bench/gpu/two_pods.py --images machine --pinned FOLDER --tensorrt FOLDER
    python bench/gpu/two_pods.py --shapes toy wide --gpu none     a rehearsal on the processor

Backend Reference. One shape after the other, its engine's build included: builds side by side took
twice as long, and disturb what is measured. Each has the cards for itself: first a model with two
replicas, a card each, then one with `vision.placement: Disaggregated`, whose engine is the first
one's. Each pod has to see one card, and no two the same. Pods must have the kernels of their GPU:
one tries them before anything is installed. All logs of pods are kept (`--logs`).

Measured as in two.py, one after the other: first texts of new images, images a second, the pauses
of eight streams alone and beside four image clients; of one replica, of two replicas, and of a
server with its encoder. Where encoding takes e and the prompt p on a card of its own, a second card
gives at most (e + p) / max(e, p) times the images: both are measured, too. Answers of the two ways
are compared token by token, with how close the two likeliest are where they part, and features of
the encoder on all of its card with those of one that shares it. What fails is left out; the result
is written after each measurement, so that a run may be cut off.
"""

import argparse
import json
import random
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from checkpoints import PATCH, SHAPES
from cluster_models import (
    WHERE,
    Question,
    answers,
    holds,
    on_gpu_by_pod,
    pods,
    serving_pods,
    until,
)
from cluster_shapes import (
    checkpoints_made,
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
from gpu_record import RESULTS, write
from in_pods import encoding, of_features, try_kernels
from placed import Unit
from sites import chat
from two import (
    ANSWER_TOKENS,
    CLIENTS,
    answers_a_second,
    beside_images,
    first_texts,
    images_a_second,
    tried,
)
from two import compared as compared_tokens

from mm_devcluster import cluster
from mm_devcluster.demo import settings
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError
from mm_devcluster.paths import state_dir
from mm_runtime.base.faults import NO_KERNELS
from mm_runtime.serving.metrics.collected import COLLECTED_SECONDS

DISAGGREGATED = "disaggregated"
GOALS = {
    "first_text": ("<=", 1.15),
    "p95_beside_images": ("<=", 1.1),
    "images_a_second": (">=", 1.5),
    "images_a_second_of_two_units": (">=", 1.9),
}
"""Of an encoder's own card, as a ratio to one card's; the second is to streams alone."""

SHARES = {"bigg": {"threadPercentage": 50}}
"""Of one card's encoder, where a quarter of the threads would make it wait for itself."""

PROMPTS = 2000
"""That are made to count them a second: more than are answered."""


class Record:
    """What is known, on disk after each addition."""

    def __init__(self, options: argparse.Namespace, seconds: Seconds) -> None:
        self.shapes: dict[str, dict[str, Any]] = {}
        options.logs.mkdir(parents=True, exist_ok=True)
        self._found: dict[str, Any] = {
            "seconds": seconds.taken,
            "clients": CLIENTS,
            "shapes": self.shapes,
        }
        self._out = options.out

    def add(self, name: str, value: object) -> None:
        """Keep and write a value."""
        self._found[name] = value
        self.write()

    def write(self) -> None:
        """Write what there is."""
        write(self._out, "python bench/gpu/two_pods.py", self._found)


@dataclass(frozen=True)
class Bench:
    """What the measurements of one shape work with."""

    session: Session
    record: Record
    seconds: Seconds
    options: argparse.Namespace
    shape: str

    @property
    def target(self) -> Target:
        """The cluster."""
        return self.session.target

    @property
    def on_gpu(self) -> bool:
        """Whether the cluster has the machine's GPUs."""
        return bool(self.options.gpu != "none")

    @property
    def device(self) -> str:
        """Where encoders compute."""
        return "CUDA" if self.on_gpu else "CPU"

    @property
    def side(self) -> int:
        """Pixels of an image's side."""
        return SHAPES[self.shape].side

    @property
    def alike(self) -> str:
        """Name of the model with a card for each replica."""
        return f"alike-{self.shape}"

    @property
    def encoder_elsewhere(self) -> str:
        """Name of the model whose encoder has a card."""
        return f"{DISAGGREGATED}-{self.shape}"

    @property
    def share(self) -> dict[str, Any]:
        """Fields of `spec.vision` where encoder and language model share a card."""
        return SHARES.get(self.shape, {}) if self.on_gpu else {}

    @property
    def found(self) -> dict[str, Any]:
        """What is known of the shape."""
        return self.record.shapes.setdefault(self.shape, {})

    def add(self, name: str, value: object) -> None:
        """Keep and write a value of the shape."""
        self.found[name] = value
        self.record.write()

    def try_to(self, name: str, call: Callable[[], object]) -> None:
        """Keep what a call returns; it may fail."""
        self.add(name, tried(f"{self.shape}: {name}", call))

    def evidently(self, model: str, call: Callable[[], Any]) -> Any:
        """Return what a call returns; where it fails, print what the cluster knows of a model."""
        try:
            return call()
        except Exception:  # noqa: BLE001 - what comes after it is measured all the same
            print(model, traceback.format_exc(), evidence_of(self.session, [model]), flush=True)
            return None

    def keep_logs(self, when: str) -> None:
        """Write the logs of all pods of models into files, and print what they warn of."""
        for pod in pods(self.target, *WHERE):
            name = pod["metadata"]["name"]
            try:
                text = self.target.call("logs", name, *WHERE, "--all-containers", "--prefix")
            except DevClusterError as error:
                text = str(error)
            (self.options.logs / f"{when}-{name}.log").write_text(text)
            lines = [one for one in text.splitlines() if "WARN" in one or "ERROR" in one]
            print(name, *lines[:3], *lines[3:][-5:], sep="\n", flush=True)
            assert not self.on_gpu or NO_KERNELS not in text, f"{name} has no kernels"

    def manifest(self, name: str, **more: Any) -> dict[str, Any]:
        """Return a model of the shape."""
        build = {"evaluation": self.options.evaluation}
        return manifest(name, self.shape, on_gpu=self.on_gpu, build=build, **more)


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


def sums(pod: Mapping[str, Any], counter: str, label: str) -> dict[str, float]:
    """Return the sums of a counter of a pod by one of its labels."""
    found: dict[str, float] = {}
    for line in httpx.get(f"{url_of(pod)}/metrics", timeout=30).text.splitlines():
        if line.startswith(f"{counter}{{"):
            labels, _, value = line.partition("} ")
            by = labels.partition(f'{label}="')[2].partition('"')[0]
            found[by] = found.get(by, 0.0) + float(value)
    return found


def encoded_by(pod: Mapping[str, Any]) -> dict[str, float]:
    """Return how many images were encoded by encoders, and by the server itself."""
    return sums(pod, "mm_encoder_requests_total", "by")


def compared(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return ratios beside their goals, as far as both sides are known."""
    one, split = found.get("one") or {}, found.get(DISAGGREGATED) or {}
    pairs = {
        "first_text": (_p50(split), _p50(one)),
        "p95_beside_images": ((split.get("streams") or {}).get("p95_ratio"), 1),
        "images_a_second": (split.get("images_a_second"), one.get("images_a_second")),
        "images_a_second_of_two_units": (found.get("two_units"), one.get("images_a_second")),
    }
    return {
        name: {"ratio": round(a / b, 3), "goal": " ".join(map(str, GOALS[name]))}
        for name, (a, b) in pairs.items()
        if a and b
    }


def _p50(unit: Mapping[str, Any]) -> float | None:
    return (unit.get("first_text_ms") or {}).get("p50")


def scored(url: str, model: str, queries: Sequence[Question]) -> list[list[dict[str, Any]]]:
    """Return the tokens of answers at temperature 0, each with the two likeliest."""
    found = []
    for words, image in queries:
        request = chat(url, model, words, [image], tokens=ANSWER_TOKENS)
        body = request["json"] | {"logprobs": True, "top_logprobs": 2}
        answer = httpx.post(request["url"], json=body, timeout=120)
        answer.raise_for_status()
        found.append(answer.json()["choices"][0]["logprobs"]["content"])
    return found


def prompts(bench: Bench) -> list[bytes]:
    """Return requests of text alone, with as many words as an image has features."""
    file = bench.options.checkpoints / bench.shape / "tokenizer.json"
    known = json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"]
    words = [one for one in known if one.isalnum()]  # each is a token
    draw, length = random.Random(5), (bench.side // PATCH) ** 2  # noqa: S311 - no secret
    texts = (" ".join(draw.choices(words, k=length)) for _ in range(PROMPTS))
    return [
        json.dumps(
            {
                "model": bench.alike,
                "messages": [{"role": "user", "content": text}],
                "max_tokens": 1,
                "temperature": 0,
            }
        ).encode()
        for text in texts
    ]


def measured(bench: Bench, name: str, unit: Unit, pod: Mapping[str, Any]) -> None:
    """Note what one unit does, and how many requests its pod refused meanwhile, by reason."""
    found: dict[str, Any] = {}
    side, options = bench.side, bench.options

    def taken(what: str, call: Callable[[], object]) -> None:
        found[what] = tried(f"{bench.shape}, {name}: {what}", call)
        bench.add(name, found)

    taken("first_text_ms", lambda: first_texts({name: unit}, side, options.requests)[name])
    taken("images_a_second", lambda: images_a_second([unit], side, options))
    taken("streams", lambda: beside_images(unit, side, options))
    taken("refused", lambda: sums(pod, "mm_requests_rejected_total", "reason"))


def alike(bench: Bench) -> dict[str, Any]:
    """Measure one of two replicas, and both; return answers and features of the first."""
    target, options = bench.target, bench.options
    with bench.seconds.of(f"{bench.shape}: Ready"):
        until("Ready", lambda: holds(target, bench.alike), options.timeout)
    bench.keep_logs("ready")
    both = serving_pods(target, bench.alike)
    bench.add("planned", planned(target, bench.alike))
    if bench.on_gpu:
        named = {f"replica {number}": one for number, one in enumerate(both)}
        bench.try_to("cards_alike", lambda: cards(target, named))
    units = [Unit(url_of(one), bench.alike) for one in both]
    queries = questions(bench.shape)
    here, *there = (answers(unit.url, bench.alike, queries) for unit in units)
    same = {"streamed_equal_to_unary": equal(here["streamed"], here["unary"])}
    for other in there:
        same["other_replica_equal"] = equal(other["unary"], here["unary"])
    bench.add("answers_alike", same)
    tokens = scored(units[0].url, bench.alike, queries)
    measured(bench, "one", units[0], both[0])
    if there:
        bench.try_to("two_units", lambda: images_a_second(units, bench.side, options))
    bench.try_to(
        "prompts_a_second", lambda: answers_a_second(units[:1], [prompts(bench)], options.seconds)
    )
    features = tried("features of one", lambda: encoding(target, both[0], bench.device))
    if options.cards == 1 and features:
        alone, again = (
            tried("features without MPS", lambda: encoding(target, both[0], bench.device, "alone"))
            for _ in range(2)
        )
        if alone and again:
            bench.add("features", of_features(alone, features))
            bench.add("features_again", of_features(alone, again))
    return {"texts": here["unary"], "tokens": tokens, "features": features}


def disaggregated(bench: Bench, first: Mapping[str, Any]) -> None:
    """Measure a server beside its encoder; `first`: what another server gave."""
    target, options, name = bench.target, bench.options, bench.encoder_elsewhere
    with bench.seconds.of(f"{bench.shape}: encoder and server Ready"):
        for condition in ("Ready", "EncodersReady"):
            until(condition, lambda: holds(target, name, condition), options.timeout)  # noqa: B023
    bench.add("planned_disaggregated", planned(target, name))
    server = serving_pods(target, name)[-1]
    encoder = serving_pods(target, name, "encoder")[-1]
    if bench.on_gpu:
        both = {"server": server, "encoder": encoder}
        bench.try_to("cards_disaggregated", lambda: cards(target, both))
    unit, queries = Unit(url_of(server), name), questions(bench.shape)
    with bench.seconds.of(f"{bench.shape}: encoder known to its server"):
        known = encoded_by(server).get("encoders", 0)

        def used() -> bool:
            answers(unit.url, name, queries[:1])
            time.sleep(1)
            return encoded_by(server).get("encoders", 0) > known

        until("an image encoded by the encoder", used, options.timeout)
        time.sleep(2 * COLLECTED_SECONDS)
    before = encoded_by(server)
    texts = answers(unit.url, name, queries)["unary"]
    if first:
        bench.add("answers_disaggregated_equal", equal(texts, first["texts"]))
        tokens = scored(unit.url, name, queries)
        bench.add("tokens_disaggregated", compared_tokens(first["tokens"], tokens))
    measured(bench, DISAGGREGATED, unit, server)
    time.sleep(2 * COLLECTED_SECONDS)
    after = encoded_by(server)
    bench.add("encoded_by", {by: count - before.get(by, 0) for by, count in after.items()})
    bench.try_to("compared", lambda: compared(bench.found))
    features = tried("features of the encoder", lambda: encoding(target, encoder, bench.device))
    bench.add("encoding_seconds", features and features["seconds"])
    if features and first.get("features"):
        bench.add("features", of_features(features, first["features"]))


def of_shape(bench: Bench) -> None:
    """Give one shape the cards, in both ways; each is tried."""
    target, build = bench.target, bench.manifest

    def placed() -> bool:
        found = serving_pods(target, bench.alike)
        return len([one for one in found if "nodeName" in one["spec"]]) == int(bench.options.cards)

    taken = Seconds(f"{bench.shape}: ")
    bench.add("seconds", taken.taken)
    target.apply(build(bench.alike, vision=bench.share, replicas=bench.options.cards))
    follow(target, taken, bench.alike, bench.options.timeout, BUILT)
    tried("two pods", lambda: until("two pods that have a node", placed))
    if two := bench.options.cards > 1 or "replicas" in bench.options.gpu:
        # Their cards are theirs: pods of the next model wait until they are gone.
        resources = {"requests": {"memory": "1Gi"}, "limits": {"memory": "48Gi"}}
        vision = {"placement": "Disaggregated", "resources": resources}
        target.apply(build(bench.encoder_elsewhere, vision=vision))
        disaggregated_too = Seconds(f"{bench.encoder_elsewhere}: ")
        follow(target, disaggregated_too, bench.encoder_elsewhere, bench.options.timeout, BUILT)
    first = bench.evidently(bench.alike, lambda: alike(bench)) or {}
    tried("logs", lambda: bench.keep_logs("measured"))
    target.call("delete", "multimodalmodel", bench.alike, *WHERE, "--wait=false")
    if two:
        bench.evidently(bench.encoder_elsewhere, lambda: disaggregated(bench, first))
        tried("logs", lambda: bench.keep_logs(DISAGGREGATED))
        target.call("delete", "multimodalmodel", bench.encoder_elsewhere, *WHERE, "--wait=false")
    bench.try_to("compared", lambda: compared(bench.found))

    def gone() -> bool:
        names = [one["metadata"]["name"] for one in pods(target, *WHERE)]
        return not [
            name for name in names if name.startswith((bench.alike, bench.encoder_elsewhere))
        ]

    until("no pod of the shape", gone)


def run(session: Session, options: argparse.Namespace, seconds: Seconds, record: Record) -> None:
    """Do all; what was found so far is written, however it ends."""
    on_gpu, shapes = options.gpu != "none", options.shapes
    device = "cuda" if on_gpu else "cpu"
    with checkpoints_made(shapes, options.checkpoints, device) as writing:
        target = start(session, seconds, options.gpu if on_gpu else None)
        record.add("node_labels", node_labels(target))
        driver = Driver(target)
        try:
            with seconds.of("images"):
                record.add("images", images(session, options))
            if on_gpu:
                with seconds.of("kernels in a pod"):
                    try_kernels(session)
            install(session, seconds)
            with seconds.of("checkpoint"):
                assert not writing.wait(options.timeout), "checkpoints.py failed"
                put_into_claim(target, *(options.checkpoints / shape for shape in shapes))
            benches = [Bench(session, record, seconds, options, shape) for shape in shapes]
            for one in benches:
                one.evidently(one.alike, lambda: of_shape(one))  # noqa: B023
            with seconds.of("uninstall"):
                record.add("processes_on_gpu_after_the_models", uninstalled(target))
        except Exception:
            print(evidence_of(session, []), flush=True)
            print([one["metadata"]["name"] for one in pods(target, *WHERE)], flush=True)
            raise
        finally:
            driver.stop()
            with seconds.of("down"):
                cluster.down(session.options.cluster)
            record.add("peak_bytes_by_container", driver.peak)
            record.add("peak_bytes_by_process", driver.processes)
            record.add("processes_on_gpu_at_the_end", len(on_gpu_by_pod()))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "two_pods.json")
    add_options(parser)
    parser.add_argument("--gpu", default="host", help="none, or as up --gpu has it")
    parser.add_argument("--shapes", nargs="+", default=["7b", "bigg"], help="of checkpoints.py")
    parser.add_argument(
        "--cards", type=int, default=2, help="1: what one does, alone or with host,replicas=N"
    )
    parser.add_argument("--logs", type=Path, default=state_dir() / "logs", help="of the pods")
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--most", type=int, default=240, help="images a second that are made")
    options = parser.parse_args()
    seconds = Seconds()
    record = Record(options, seconds)
    try:
        run(Session(settings.Options(cluster=options.name)), options, seconds, record)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - what was found so far is kept
        record.add("error", str(error)[-2000:] or type(error).__name__)
        sys.exit(1)


if __name__ == "__main__":
    main()
