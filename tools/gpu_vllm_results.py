"""The page docs/design/gpu-results-vllm.md: vLLM's own server, and the gateway before it."""

from collections.abc import Iterator
from typing import Any, Final

from gpu_result_tables import table, verdict

MIB: Final = 1 << 20
DISAGGREGATED: Final = "disaggregated"
GOALS_DISAGGREGATED: Final = {"pause": 15, "images": 34, "first": 40, "tokens": 1.1}
"""Goals of disaggregated encoders before a model of 7 B: milliseconds between tokens beside images
(p95, at most) at images a second (at least), milliseconds to the first text (at most), and tokens a
second of 32 streams over vLLM's on defaults (at least)."""
FIRST_TEXT: Final = {"p50": 1.05, "p95": 1.1}
"""Goals: first text through the gateway over vLLM's own, at most."""

TOKENS: Final = 0.97
"""Goal: tokens a second through the gateway over vLLM's own, at least."""

PLANNED: Final = 1.1
"""Goal: planned bytes over the driver's, at most; never below 1."""


def vllm(result: dict[str, Any]) -> Iterator[str]:
    """Yield what clients of vLLM see, directly and through the gateway, its bytes and its start."""
    cases: dict[str, dict[str, Any]] = {
        case: _beside_stock(case, result["cases"]) for case in result["cases"]
    }
    yield "Requests go to vLLM's own port (`stock`), or through the gateway before it (`gateway`):"
    yield "one server by the plan's command, the same kind of requests in turn, another image in"
    yield "each, of 336 x 336 (shapes of LLaVA-1.5) or 1280 x 720 (`qwen-7b`: Qwen2.5-VL 7B's);"
    yield "answers of 128 tokens. Two files of vLLM are changed, for transformers 5.17: names of"
    yield "Pixtral's classes, which is not served here, and of weights of LLaVA's tower."
    if any(":" in case for case in cases):
        yield "`:disaggregated`: an encoder on the same GPU computes the features of what"
        yield "comes through the gateway; `:captures`: vLLM's CUDA graphs have up to 1,024 tokens;"
        if any("chunks" in case for case in cases):
            yield "`:chunks`: its steps have up to 320 tokens, and all of them a graph, as the plan"
            yield "has them since for `:disaggregated`;"
        yield "`:reference`: this project's engine, beside `stock` of the plain case."
    yield ""
    yield from _clients(cases)
    yield from _beside_images(cases)
    yield from _memory(cases)
    yield from _starts(cases)


def _beside_stock(case: str, cases: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the results of a case; an engine that is no vLLM gets the plain case's stock."""
    found, plain = cases[case], cases.get(case.partition(":")[0], {})

    def beside(one: Any, stock: Any) -> Any:
        if not isinstance(one, dict) or not isinstance(stock, dict) or "stock" in one:
            return one
        if "stock" in stock and "reference" in one:
            return {"stock": stock["stock"], **one}
        return {name: beside(value, stock.get(name)) for name, value in one.items()}

    return {name: beside(value, plain.get(name)) for name, value in found.items()}


def _of(cases: dict[str, dict[str, Any]], name: str) -> dict[str, dict[str, Any]]:
    return {case: one[name] for case, one in cases.items() if one.get(name)}


def _clients(cases: dict[str, dict[str, Any]]) -> Iterator[str]:
    rows: list[list[object]] = [
        [case, "first text alone, ms p50 / p95", *_pair(one, "p50", "p95")]
        for case, one in _of(cases, "first_text_ms").items()
    ]
    for case, counts in _of(cases, "streams").items():
        for count, one in counts.items():
            if one:
                rows.append([case, f"tokens/s, {count} at once", *_pair(one, "tokens_per_second")])
                names = [f"first_text_{part}_ms" for part in ("p50", "p95")]
                rows.append([case, f"first text, {count} at once, ms", *_pair(one, *names)])
    yield from table(["model", "", "stock", "ours", "ours over stock"], rows)
    yield ""
    for case, one in _of(cases, "first_text_ms").items():
        if "gateway" in one:
            yield from _first_text(case, one)
    for case, counts in _of(cases, "streams").items():
        ratios = [
            one["ratio"]["tokens_per_second"] for one in counts.values() if one and "gateway" in one
        ]
        if ratios:
            met = verdict(min(ratios) >= TOKENS, f"at least {TOKENS}")
            yield f"- {case}: tokens a second: {min(ratios)} times or more ({met})."
    for case in cases:
        if DISAGGREGATED in case and case.startswith("7b"):
            yield from _disaggregated(case, cases)
    yield ""


def _first_text(case: str, one: dict[str, Any]) -> Iterator[str]:
    for part, most in FIRST_TEXT.items():
        ratio = one["ratio"][part]
        met = verdict(ratio <= most, f"at most {most}")
        yield f"- {case}: first text, {part}: {ratio} times ({met})."
    if "added_ms" in one:
        yield f"- {case}: the gateway added {one['added_ms']} ms, the median of pairs; at the"
        yield f"  tenth percentile it took {one['ratio']['p10']} times as long."


def _disaggregated(case: str, cases: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the goals of disaggregated encoders."""
    found = cases[case]
    if one := found.get("first_text_ms"):
        first = one[DISAGGREGATED]["p50"]
        met = verdict(
            first <= GOALS_DISAGGREGATED["first"], f"at most {GOALS_DISAGGREGATED['first']}"
        )
        yield f"- {case}: first text of a new image: {first} ms ({met})."
    if one := found.get("beside_images"):
        beside = one[DISAGGREGATED]["beside_images"]
        pause, images = beside["p95_ms"], beside["images_per_second"]
        ok = pause <= GOALS_DISAGGREGATED["pause"] and images >= GOALS_DISAGGREGATED["images"]
        goal = f"at most {GOALS_DISAGGREGATED['pause']} at {GOALS_DISAGGREGATED['images']} or more"
        yield f"- {case}: p95 between tokens beside images: {pause} ms at {images} images/s"
        yield f"  ({verdict(ok, goal)})."
    mine, stock = ((one.get("streams") or {}).get("32") for one in (found, cases.get("7b", {})))
    if mine and stock:
        mine, stock = (one["tokens_per_second"] for one in (mine[DISAGGREGATED], stock["stock"]))
        ratio = round(mine / stock, 3)
        met = verdict(
            ratio >= GOALS_DISAGGREGATED["tokens"], f"at least {GOALS_DISAGGREGATED['tokens']}"
        )
        yield f"- {case}: tokens a second at 32 streams over vLLM's on defaults: {ratio} ({met})."
    if one := found.get("handed_over"):
        yield f"- {case}: images that vLLM encoded all the same: {one['encoded_by_vllm']}."


def _pair(one: dict[str, Any], *names: str) -> list[object]:
    """Return figures of vLLM itself, of ours, and ours over vLLM's."""
    way = next((way for way in ("gateway", DISAGGREGATED, "reference") if way in one), "")
    stock, ours = one.get("stock"), one.get(way)
    shown = [
        " / ".join(str(some[name]) for name in names) if some else "-" for some in (stock, ours)
    ]
    if not stock or not ours:
        return [*shown, "-"]
    return [*shown, " / ".join(str(round(ours[name] / stock[name], 3)) for name in names)]


def _beside_images(cases: dict[str, dict[str, Any]]) -> Iterator[str]:
    rows: list[list[object]] = [
        [
            case,
            way,
            *(
                f"{found['p50_ms']} / {found['p95_ms']}"
                for found in (one["alone"], one["beside_images"])
            ),
            one["beside_images"]["images_per_second"],
            one["beside_images"]["image_p50_ms"],
        ]
        for case, ways in _of(cases, "beside_images").items()
        for way, one in ways.items()
        if not (case.endswith("reference") and way == "stock")
    ]
    head = ["model", "", "between tokens alone, ms p50 / p95", "beside images", "images/s"]
    yield from table([*head, "an image's answer, ms p50"], rows)
    yield ""
    yield "Eight streams of text, alone and beside four clients that send new images without pause."
    yield ""


def _memory(cases: dict[str, dict[str, Any]]) -> Iterator[str]:
    found = {case: one for case, one in _of(cases, "memory").items() if one["counted_bytes"]}
    rows: list[list[object]] = [
        [
            case,
            one["utilization"],
            *(
                " / ".join(
                    f"{one[f'{by}_{part}bytes'] / MIB:,.0f}" for by in ("planned", "counted")
                )
                for part in ("", "kv_", "rest_")
            ),
            one["planned_over_counted"],
            one["rest_over_counted"],
        ]
        for case, one in found.items()
    ]
    head = ["model", "`--gpu-memory-utilization`", "all, MiB planned / counted"]
    head += ["keys and values", "all else", "all: over counted", "all else: over counted"]
    yield from table(head, rows)
    yield ""
    yield "Counted by nvidia-smi for vLLM's processes after all requests; keys and values by vLLM's"
    yield "own log, which gives them what its profile run left."
    yield ""
    for case, one in found.items():
        ratio = one["planned_over_counted"]
        met = verdict(1 <= ratio <= PLANNED, f"1 to {PLANNED}")
        yield f"- {case}: planned over counted: {ratio} ({met})."
    yield ""


def _starts(cases: dict[str, dict[str, Any]]) -> Iterator[str]:
    rows: list[list[object]] = []
    for case, one in _of(cases, "cold_start_s").items():
        if "by_its_log" not in one:
            rows.append([case, cases[case]["staged_s"], one["gateway_too"], *["-"] * 4])
            continue
        log = one["by_its_log"]
        parts = [log.get(name, "-") for name in ("weights", "compilation", "graphs")]
        staged = cases[case]["staged_s"]
        rows.append([case, staged, one["first_text"], one["first_image"], *parts])
    head = ["model", "inspected and staged, s", "first text", "first image"]
    yield from table([*head, "of it weights", "compiling", "CUDA graphs"], rows)
    yield ""
    yield "Seconds from vLLM's start with an empty compile cache; weights in the page cache."
