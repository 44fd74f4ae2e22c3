"""The page docs/gpu-results-vllm.md: vLLM's own server, and the gateway before it."""

from collections.abc import Iterator
from typing import Any, Final

from gpu_result_tables import table, verdict

MIB: Final = 1 << 20
WAYS: Final = ("stock", "gateway")
FIRST_TEXT: Final = {"p50": 1.05, "p95": 1.1}
"""Goals: first text through the gateway over vLLM's own, at most."""

TOKENS: Final = 0.97
"""Goal: tokens a second through the gateway over vLLM's own, at least."""

PLANNED: Final = 1.1
"""Goal: planned bytes over the driver's, at most; never below 1."""


def vllm(result: dict[str, Any]) -> Iterator[str]:
    """Yield what clients of vLLM see, directly and through the gateway, its bytes and its start."""
    cases: dict[str, dict[str, Any]] = result["cases"]
    yield "Requests go to vLLM's own port (`stock`), or through the gateway before it (`gateway`):"
    yield "one server by the plan's command, the same kind of requests in turn, another image in"
    yield "each, of 336 x 336 (shapes of LLaVA-1.5) or 1280 x 720 (`qwen-7b`: Qwen2.5-VL 7B's);"
    yield "answers of 128 tokens. Two files of vLLM are changed, for transformers 5.17: names of"
    yield "Pixtral's classes, which is not served here, and of weights of LLaVA's tower."
    yield ""
    yield from _clients(cases)
    yield from _beside_images(cases)
    yield from _memory(cases)
    yield from _starts(cases)


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
    yield from table(["model", "", *WAYS, "gateway over stock"], rows)
    yield ""
    for case, one in _of(cases, "first_text_ms").items():
        for part, most in FIRST_TEXT.items():
            ratio = one["ratio"][part]
            met = verdict(ratio <= most, f"at most {most}")
            yield f"- {case}: first text, {part}: {ratio} times ({met})."
    for case, counts in _of(cases, "streams").items():
        least = min(one["ratio"]["tokens_per_second"] for one in counts.values() if one)
        met = verdict(least >= TOKENS, f"at least {TOKENS}")
        yield f"- {case}: tokens a second: {least} times or more ({met})."
    yield ""


def _pair(one: dict[str, Any], *names: str) -> list[object]:
    return [" / ".join(str(one[way][name]) for name in names) for way in (*WAYS, "ratio")]


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
        log = one["by_its_log"]
        parts = [log.get(name, "-") for name in ("weights", "compilation", "graphs")]
        staged = cases[case]["staged_s"]
        rows.append([case, staged, one["first_text"], one["first_image"], *parts])
    head = ["model", "inspected and staged, s", "first text", "first image"]
    yield from table([*head, "of it weights", "compiling", "CUDA graphs"], rows)
    yield ""
    yield "Seconds from vLLM's start with an empty compile cache; weights in the page cache."
