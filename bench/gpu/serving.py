"""When does a client of the gateway see the first text of an answer with an image, and the next?

    python bench/gpu/serving.py --cases 1.3b 1.3b:cached
    python bench/gpu/serving.py --cases 7b 7b:cached --add

Each case is planned by the operator's code, built and served (tritonserver, gateway, MPS), all of
them at the same time; then each is measured alone, while the others wait. `:cached` keeps features
of images (`vision.featureCacheBytes`, 512 MiB), `:reuse` also keys and values of prompts
(`engine.kvCache.reuse`). `:share50` gives the encoder 50 percent of the
GPU's threads (`vision.threadPercentage`), where the plan chooses 25. `:tensorrt` has a vision
engine of TensorRT, which has to be there, in an engine of its own. `:disaggregated` has its
encoder in a server of its own, on the machine's second GPU (`vision.placement: Disaggregated`): run
it with CUDA_VISIBLE_DEVICES=0, the GPU of all other processes. Images are JPEGs of 336 x 336; a
client keeps its connection.

- `first_text_ms`: until the first text; images that were never sent before, images that were sent
  before, and a question without an image. What Triton's own metrics say of each model is beside
  it.
- `added_to_triton`: the first text of new images by Triton's own gRPC and through the gateway, in
  turn (direct.py).
- `one_stream`: the time of a token in an answer of 128 tokens about an image.
- `beside_images`: the pauses between tokens of eight text streams, alone and beside four clients
  that send new images without pause (bench/runtime/streams_beside_images.py). First for the first
  case, then for the others.
- `beside_images_at`: the same with so many images a second (`--rates`).

Two 7b on one GPU of 80 GB leave too little for others while they load: measure them by a second
run with `--add`. The result is written after each measurement, so that a run may be cut off.
Building 1.3b and 7b at the same time took more than 200 s on eight cores: `--build-only --work
FOLDER` does that before.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from checkpoints import SHAPES, made
from gpu_record import RESULTS, ROOT, write
from questions import body_of, new_image
from sites import Site, make_site, planned

sys.path += [str(ROOT / "bench" / "runtime")]

from direct import added_to_triton
from streams_beside_images import measured as measured_beside_images
from token_path import Seen, percentile, query

from mm_api.documents.serving_plan import GpuSharing
from support.encoder_pairs import disaggregated
from support.real_gateway import RealGateway, run_pair
from support.served import start_serving
from support.tiny_llava import BuiltEngine

LIMITS = {"maxBatchSize": 16, "maxImagesPerRequest": 1, "maxSeqLen": 1024}
CASES = ["1.3b", "7b", "1.3b:cached", "7b:cached"]
CACHE_BYTES = 512 << 20
DISAGGREGATED = "disaggregated"
REUSE = "reuse"
TENSORRT = "tensorrt"
SHARE = "share"
ENCODER_GPU = "1"
SPEC: dict[str, Any] = {
    "engine": LIMITS,
    "vision": {"engine": "Torch"},
    "build": {"evaluation": "Off"},
}
ANSWER = 128
WARM = 5
IMAGES_A_SECOND = 120
"""More than an encoder takes from clients that wait for each answer."""

DURATION = re.compile(
    r"^nv_inference_(?P<part>queue|compute_infer|request)_duration_us"
    r'{[^}]*triton_model="(?P<model>\w+)"[^}]*} (?P<microseconds>\S+)$',
    re.MULTILINE,
)


def first_text(pair: RealGateway, images: Sequence[str | None]) -> dict[str, Any]:
    """Return the times to the first text of one request after the other."""
    client = HTTPConnection(pair.url.removeprefix("http://"), timeout=60)
    bodies = [body_of(pair.model, image, 2) for image in images]
    before = model_milliseconds(pair)
    seen = Seen()
    for body in bodies:
        query(client, body, seen)
    after = model_milliseconds(pair)
    client.close()
    return {
        "requests": len(bodies),
        "p50_ms": percentile(seen.firsts, 0.5),
        "p95_ms": percentile(seen.firsts, 0.95),
        "least_ms": round(min(seen.firsts), 2),
        "models_ms": {
            name: round((taken - before[name]) / len(bodies), 2) for name, taken in after.items()
        },
    }


def model_milliseconds(pair: RealGateway) -> dict[str, float]:
    """Return model and part -> milliseconds since the server started, by Triton's metrics."""
    return {
        f"{found['model']} {found['part']}": float(found["microseconds"]) / 1e3
        for found in DURATION.finditer(pair.triton_metrics())
    }


def of_first_texts(pair: RealGateway, side: int, requests: int) -> dict[str, Any]:
    """Return the times to the first text with new images, with known ones and without."""
    first_text(pair, [new_image(side) for _ in range(WARM)])
    known = new_image(side)
    first_text(pair, [known] * 2)
    first_text(pair, [None] * WARM)
    return {
        "fresh": first_text(pair, [new_image(side) for _ in range(requests)]),
        "seen": first_text(pair, [known] * requests),
        "text": first_text(pair, [None] * requests),
    }


def of_one_stream(pair: RealGateway, side: int, answers: int) -> dict[str, Any]:
    """Return the time of a token of answers about images, one at a time."""
    client = HTTPConnection(pair.url.removeprefix("http://"), timeout=60)
    taken: list[float] = []
    events: list[float] = []
    for _ in range(answers):
        seen = Seen()
        query(client, body_of(pair.model, new_image(side), ANSWER), seen)
        assert seen.tokens == ANSWER
        taken.append(sum(seen.gaps) / (ANSWER - 1))
        events.append(seen.events)
    client.close()
    return {
        "answers": answers,
        "token_ms_p50": round(percentile(taken, 0.5), 3),
        "token_ms_least": round(min(taken), 3),
        "events_p50": percentile(events, 0.5),
    }


def of_added(pair: RealGateway, site: Site, requests: int) -> dict[str, Any]:
    """Return what the gateway adds to the first text of questions about new images."""
    processor = site.engine.directory / "processor"
    side = SHAPES[site.folder.name].side
    return added_to_triton(
        pair,
        processor,
        lambda: new_image(side),
        lambda image: body_of(pair.model, image, 2),
        requests,
    )


def of_beside_images(
    pair: RealGateway, side: int, rounds: int, seconds: float, a_second: float | None = None
) -> dict[str, Any]:
    """Return the pauses of eight streams, alone and beside four image clients."""
    most = int(rounds * (seconds + 4) * (a_second or IMAGES_A_SECOND))
    images = [new_image(side) for _ in range(most)]
    return measured_beside_images(pair, images, rounds, seconds, a_second)


def of_rates(pair: RealGateway, side: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the same beside so many images a second, a round for each rate."""
    return {
        f"{rate:g}": of_beside_images(pair, side, 1, options.seconds, rate)
        for rate in options.rates
    }


def built(engine: str, work: Path, device: str) -> Site:
    """Return the planned and built engine of a shape; `:tensorrt`: of its vision engine."""
    where = "cuda" if device == "CUDA" else "cpu"
    shape, _, way = engine.partition(":")
    checkpoint = made(work / "checkpoints", shape, device=where)
    spec = {**SPEC, "vision": {"engine": "TensorRT"}} if way else SPEC
    return make_site(work / "sites" / shape / way, checkpoint, device=device, spec=spec)


def without_encoder(
    stack: ExitStack, site: Site, checkpoint: Path, folder: Path, device: str
) -> BuiltEngine:
    """Return the engine served beside an encoder on the second GPU, which is started.

    Raises:
        AssertionError: the encoder did not become ready.
    """
    placed = {**SPEC, "vision": {"engine": "Torch", "placement": "Disaggregated"}}
    plan = planned(checkpoint, device=device, spec=placed)
    assert plan.build_plan.fingerprint == site.plan.build_plan.fingerprint
    parts = {name: folder / name for name in ("plan", "encoder", "server")}
    for part in parts.values():
        part.mkdir()
    (parts["plan"] / "serving.json").write_text(plan.serving_plan.to_json())
    engine = BuiltEngine(site.engine.directory, parts["plan"] / "serving.json")
    encoder = stack.enter_context(
        start_serving(
            engine.manifest,
            disaggregated(engine, parts["encoder"], "127.0.0.1:1"),
            *("--role", "encoder"),
            folder=parts["encoder"],
            environment={**os.environ, "CUDA_VISIBLE_DEVICES": ENCODER_GPU},
        )
    )
    encoder.wait_until_ready()
    server = disaggregated(engine, parts["server"], encoder.grpc_url)
    return BuiltEngine(site.engine.directory, server)


def with_reuse(site: Site, checkpoint: Path, folder: Path, device: str) -> BuiltEngine:
    """Return the engine served by the plan that keeps features, keys and values."""
    vision = SPEC["vision"] | {"featureCacheBytes": CACHE_BYTES}
    engine = SPEC["engine"] | {"kvCache": {"reuse": True}}
    plan = planned(checkpoint, device=device, spec={**SPEC, "vision": vision, "engine": engine})
    assert plan.build_plan.fingerprint == site.plan.build_plan.fingerprint
    serving = folder / "plan.json"
    serving.write_text(plan.serving_plan.to_json())
    return BuiltEngine(site.engine.directory, serving)


def changes_of(way: str) -> dict[str, object]:
    """Return what a way of serving changes in a serving plan."""
    if way.startswith(SHARE):
        share = int(way.removeprefix(SHARE))
        sharing = GpuSharing(mode="MPS", thread_percentage=share)
        return {"feature_cache_bytes": 0, "sharing": sharing}
    return {"feature_cache_bytes": CACHE_BYTES if way not in ("", TENSORRT) else 0}


class Servers:
    """One server for each case, all started at the same time."""

    def __init__(self, stack: ExitStack, folder: Path, work: Path, device: str) -> None:
        self._stack = stack
        self._folder = folder
        self._work = work
        self._device = device

    def start(self, case: str, site: Site) -> tuple[RealGateway, float]:
        """Return a server once it is ready, and the seconds that it took."""
        folder = self._folder / case.replace(":", "-")
        folder.mkdir()
        began = time.monotonic()
        shape, _, way = case.partition(":")
        try:
            checkpoint = made(self._work / "checkpoints", shape, device=self._device)
            if way == DISAGGREGATED:
                engine = without_encoder(self._stack, site, checkpoint, folder, self._device)
            elif way == REUSE:
                engine = with_reuse(site, checkpoint, folder, self._device)
            else:
                engine = replace(site, folder=folder).served_by("plan", **changes_of(way))
            pair = self._stack.enter_context(run_pair(engine, folder))
        except Exception:
            for log in sorted(folder.rglob("*.log")):
                lines = log.read_text(errors="replace").splitlines()
                print(case, log.name, *lines[-25:], sep="\n", flush=True)
            raise
        return pair, round(time.monotonic() - began, 1)


def _shape(case: str) -> str:
    return case.partition(":")[0]


def _engine(case: str) -> str:
    return case if case.endswith(f":{TENSORRT}") else _shape(case)


def tried(case: str, call: Callable[[], Any]) -> Any:
    """Return what a call returns; None: it failed, which is printed."""
    try:
        return call()
    except Exception:  # noqa: BLE001 - the other cases are measured all the same
        print(case, traceback.format_exc(), flush=True)
        return None


def measure(
    pairs: dict[str, tuple[RealGateway, float]],
    sites: Mapping[str, Site | None],
    options: argparse.Namespace,
) -> Iterator[tuple[str, str, Any]]:
    """Yield case, name and result of each measurement, the most wanted first."""
    for case, (_, seconds) in pairs.items():
        yield case, "ready_seconds", seconds
    for case, (pair, _) in pairs.items():
        side = SHAPES[_shape(case)].side
        first = tried(case, lambda: of_first_texts(pair, side, options.requests))  # noqa: B023
        yield case, "first_text_ms", first
        stream = tried(case, lambda: of_one_stream(pair, side, options.answers))  # noqa: B023
        yield case, "one_stream", stream
    for case, (pair, _) in pairs.items():
        site = sites.get(case)
        if case == _shape(case) and site is not None:
            added = tried(case, lambda: of_added(pair, site, options.requests))  # noqa: B023
            yield case, "added_to_triton", added
    for case, (pair, _) in pairs.items():
        side = SHAPES[_shape(case)].side
        if case.partition(":")[2] not in ("cached", REUSE):
            beside = tried(
                case,
                lambda: of_beside_images(pair, side, options.rounds, options.seconds),  # noqa: B023
            )
            yield case, "beside_images", beside
    for case, (pair, _) in pairs.items():
        side = SHAPES[_shape(case)].side
        if case == _shape(case) and options.rates:
            at = tried(case, lambda: of_rates(pair, side, options))  # noqa: B023
            yield case, "beside_images_at", at


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "serving.json")
    parser.add_argument("--device", default="CUDA")
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--answers", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rates", type=float, nargs="+", default=[], help="images a second")
    parser.add_argument("--work", type=Path, help="folder of checkpoints and engines, kept")
    parser.add_argument("--add", action="store_true", help="keep other cases of --out")
    parser.add_argument("--build-only", action="store_true", help="build into --work, and end")
    options = parser.parse_args()
    # Imported here: its lazy modules break when two threads are the first to import from them.
    from transformers import LlavaForConditionalGeneration  # noqa: F401, PLC0415

    known = json.loads(options.out.read_text())["cases"] if options.add else {}
    result: dict[str, dict[str, Any]] = known | {case: {} for case in options.cases}
    with (
        tempfile.TemporaryDirectory(prefix="s-") as temporary,
        ThreadPoolExecutor() as pool,
        ExitStack() as stack,
    ):
        work = options.work or Path(temporary)
        for shape in sorted({_shape(case) for case in options.cases}):
            made(work / "checkpoints", shape, device="cuda" if options.device == "CUDA" else "cpu")
        engines = sorted({_engine(case) for case in options.cases})
        building = {one: pool.submit(built, one, work, options.device) for one in engines}
        sites = {one: tried(one, site.result) for one, site in building.items()}
        if options.build_only:
            return
        servers = Servers(stack, Path(temporary), work, options.device)
        starts = {
            case: pool.submit(servers.start, case, sites[_engine(case)])
            for case in options.cases
            if sites[_engine(case)] is not None
        }
        pairs = {case: tried(case, start.result) for case, start in starts.items()}
        ready = {case: pair for case, pair in pairs.items() if pair is not None}
        for case, name, found in measure(ready, sites, options):
            result[case][name] = found
            write(options.out, "python bench/gpu/serving.py", {"cases": result})


if __name__ == "__main__":
    main()
