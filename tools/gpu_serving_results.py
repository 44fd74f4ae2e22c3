"""Sections of docs/design/gpu-results.md about what clients of the gateway see."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gpu_result_tables import table, verdict

RESULTS: Final = Path(__file__).resolve().parent.parent / "bench" / "gpu" / "results"

GOALS: Final[dict[str, dict[str, float]]] = {
    "1.3b": {"gpu_over": 2.0, "engine_over": 2.1, "first_text_ms": 25.0},
    "7b": {"gpu_over": 1.4, "engine_over": 1.5, "first_text_ms": 35.0},
}
"""For the models that have one."""

SEEN_SHARE: Final = 0.6
"""Goal: of the time to the first text, where the image was sent before."""

ADDED_MS: Final = 0.3
"""Goal: to a token of one stream, by Triton and the gateway."""

FIRST_TEXT_TIMES: Final = 1.05
"""Goal: of the first text by Triton's own gRPC, through the gateway."""

PAUSES: Final = 1.25
"""Goal: pauses beside clients with images over those without, at the 95th percentile."""


def serving(result: dict[str, Any]) -> Iterator[str]:
    """Yield what clients of the gateway see."""
    cases = {name: one for name, one in result["cases"].items() if one.get("first_text_ms")}
    rows: list[list[object]] = [
        [
            name,
            *(
                f"{one['first_text_ms'][kind]['p50_ms']} ({one['first_text_ms'][kind]['p95_ms']})"
                for kind in ("fresh", "seen", "text")
            ),
        ]
        for name, one in cases.items()
    ]
    yield from table(["server", "new image", "image sent before", "text only"], rows)
    yield ""
    yield "Milliseconds until a client of the gateway has the first text: the median, in brackets"
    yield "the 95th percentile, one request after the other. `:cached`: `vision.featureCacheBytes`;"
    yield "`:reuse`: also `engine.kvCache.reuse`, the same question; others encode images again."
    apart = any(name.endswith(":disaggregated") for name in cases)
    if apart:
        yield "`:disaggregated`: features of another GPU's encoder, by gRPC in bfloat16."
    yield ""
    for name, one in cases.items():
        yield from _first_text_goals(name, one["first_text_ms"])
    yield from _added(cases)
    if not apart:  # the engine was measured on another kind of GPU
        yield from _streams(result)
    yield ""
    yield from _beside_images(result["cases"])
    yield ""
    yield "Eight streams of text, alone and beside four clients that send new images without"
    yield "pause; encoder and language model share the GPU through MPS, but where the encoder has"
    yield "one of its own."
    yield from _at_rates(result["cases"])


def tensorrt_pauses(result: dict[str, Any]) -> Iterator[str]:
    """Yield the pauses of streams beside images by vision engine."""
    cases = result["cases"]
    yield from _beside_images(cases)
    yield ""
    yield "Eight streams of text, alone and beside four clients that send new images without"
    yield "pause, by `vision.engine`: Torch, or `:tensorrt`. Both in one run, each alone while the"
    yield "other waits; encoder and language model share the GPU through MPS."
    yield ""
    for name, one in cases.items():
        if name.endswith(":tensorrt"):
            torch = cases[name.partition(":")[0]]["beside_images"]["beside_images"]["p95_ms"]
            ours = one["beside_images"]["beside_images"]["p95_ms"]
            met = verdict(ours <= torch, "no longer than with Torch")
            yield f"- {name}: p95 beside images {ours} ms, with Torch {torch} ms ({met})."


def _at_rates(cases: dict[str, Any]) -> Iterator[str]:
    """Yield what streams see beside so many images a second, where that was measured."""
    rows = [
        [
            name,
            rate,
            f"{one['alone']['p50_ms']} / {one['alone']['p95_ms']}",
            f"{one['beside_images']['p50_ms']} / {one['beside_images']['p95_ms']}",
            one["p95_ratio"],
        ]
        for name, case in cases.items()
        for rate, one in (case.get("beside_images_at") or {}).items()
    ]
    if rows:
        yield ""
        heads = ["server", "images a second", "alone, p50 / p95 ms", "beside images", "p95 ratio"]
        yield from table(heads, rows)
        yield ""
        yield "The same at a rate of images, one round each: below 1 is what rounds differ by."


def _beside_images(cases: dict[str, Any]) -> Iterator[str]:
    yield from table(
        ["server", "alone, p50 / p95 ms", "beside images", "images a second", "p95 ratio", ""],
        [
            [
                name,
                f"{one['alone']['p50_ms']} / {one['alone']['p95_ms']}",
                f"{one['beside_images']['p50_ms']} / {one['beside_images']['p95_ms']}",
                one["beside_images"]["images_per_second"],
                one["p95_ratio"],
                verdict(one["p95_ratio"] <= PAUSES, f"at most {PAUSES:g}"),
            ]
            for name, case in cases.items()
            if (one := case.get("beside_images"))
        ],
    )


def _first_text_goals(name: str, found: dict[str, Any]) -> Iterator[str]:
    fresh, seen = found["fresh"]["p50_ms"], found["seen"]["p50_ms"]
    shape, _, way = name.partition(":")
    if way in ("cached", "reuse"):
        share = seen / fresh
        yield (
            f"- {name}: an image that was sent before takes {share:.2f} of a new one's time "
            f"({verdict(share <= SEEN_SHARE, f'at most {SEEN_SHARE:g}')})."
        )
    elif not way and shape in GOALS:
        wanted = GOALS[shape]["first_text_ms"]
        yield f"- {name}: {fresh} ms ({verdict(fresh <= wanted, f'at most {wanted:g}')})."


def _added(cases: dict[str, Any]) -> Iterator[str]:
    for name, case in cases.items():
        if one := case.get("added_to_triton"):
            ratio, triton, gateway = (one[way]["p50"] for way in ("ratio", "triton", "gateway"))
            yield (
                f"- {name}: the first text takes {gateway} ms through the gateway and {triton} ms "
                f"by Triton's own gRPC, in turn: {ratio} times "
                f"({verdict(ratio <= FIRST_TEXT_TIMES, f'at most {FIRST_TEXT_TIMES:g}')})."
            )


def _streams(result: dict[str, Any]) -> Iterator[str]:
    path = RESULTS / "engine.json"
    engines = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"shapes": {}}
    for name, one in result["cases"].items():
        shape = name.partition(":")[0]
        step = engines["shapes"].get(shape, {}).get("engine", {}).get("1")
        if not one.get("one_stream") or step is None:
            continue
        served = one["one_stream"]["token_ms_p50"]
        added = served - step["step_ms"]
        yield (
            f"- {name}, one stream: {served} ms a token, {added:.2f} more than `Engine` in its own "
            f"process ({verdict(added <= ADDED_MS, f'at most {ADDED_MS:g}')})."
        )


def one_pass(result: dict[str, Any]) -> Iterator[str]:
    """Yield what part of a prompt costs the tokens that are decoded with it."""
    batches = ("1", "8", "16", "32")
    yield from table(
        ["model", *(f"batch {batch}, alone / with the part, ms" for batch in batches)],
        [
            [name, *(_beside(one["steps_beside_a_part"][batch]) for batch in batches)]
            for name, one in result["shapes"].items()
        ],
    )
    yield ""
    yield "Passes of requests at 660 positions, alone and with 128 rows of a prompt; 31 requests at"
    yield "batch 32, where the part takes the last slot."


def _beside(one: dict[str, float]) -> str:
    return f"{one['alone_ms']} / {one['beside_ms']} ({one['ratio']})"
