"""Section of docs/design/gpu-results.md about two GPUs of one host."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gpu_cluster_results import processes
from gpu_result_tables import table, verdict

FORMER: Final = (
    Path(__file__).resolve().parent.parent / "bench" / "gpu" / "results" / "serving_two_gpus.json"
)
"""The engine before the one that reads prompts in parts: its `7b`, and `7b` with an encoder on a
card of its own."""

MIB: Final = 1 << 20
PLANNED: Final = 1.1
"""Goals: planned bytes of a rank over the driver's, at most; never below 1."""

FIRST_TEXT: Final = 1.15
"""With an encoder on a card of its own, over one card's: first text of a new image, at most."""

PAUSES: Final = 1.1
"""95th percentile between tokens beside images over that of streams alone, at most."""

IMAGES: Final = 1.5
"""Images a second over one card's, at least."""

UNITS: Final = 1.9
"""The same of a unit on each card."""


def two(result: dict[str, Any]) -> Iterator[str]:
    """Yield what ranks, an encoder's own card and a unit on each card do beside one card."""
    yield from _ranks(result["ranks"])
    for backend in ("VLLM", "Reference"):
        if found := result[backend]:
            yield from _units(backend, found)
    yield from _former(result.get("clients", 16))


def pods(result: dict[str, Any]) -> Iterator[str]:
    """Yield what pods of a cluster do on two cards: a unit on each, an encoder's own card."""
    yield "In a development cluster, backend Reference. `one` is one of two replicas, which have a"
    yield "card each; `disaggregated` has its encoder on one card and its server on the other."
    yield "Where an image takes e to encode and p for its prompt, one card has the work of both and"
    yield "two wait for the longer one: they give at most (e + p) / max(e, p) times the images."
    yield ""
    yield from (f"- {note}" for note in result.get("notes", []))
    for shape, found in result["shapes"].items():
        yield ""
        yield f"### Shape {shape} of `bench/gpu/checkpoints.py`"
        yield ""
        yield from _shape(found, result.get("clients", 16))
    if "peak_bytes_by_process" in result:
        yield ""
        yield from processes(result)
    if "error" in result:
        yield ""
        yield f"It ended with: {result['error'].splitlines()[0]}"


def one_pod(result: dict[str, Any]) -> Iterator[str]:
    """Yield what a pod does that has one card, and what its answers and features depend on."""
    yield "Backend Reference in a development cluster, with an image that the steps of"
    yield "the file `runtime/Dockerfile.cuda` made; a pod tries the kernels of its GPU first. In"
    yield "the table `kernels` is that pod; `python` in a server's is the bench's own encoder."
    for shape, found in result["shapes"].items():
        yield ""
        yield f"Shape {shape}:"
        yield ""
        yield from _shape(found, result.get("clients", 16))
        one, again = found["features"], found["features_again"]
        all_of_it, share = one["processors"]
        yield (
            f"- Features of the encoder with {share} of the GPU's {all_of_it} multiprocessors "
            f"(MPS, 25 %) beside those with all: {one['equal']:.0%} of the values have the same "
            f"bits, the relative norm of the difference is {one['distance']:.1g}; with all, twice: "
            f"{again['equal']:.0%}. Libraries choose their kernels by the multiprocessors."
        )
    turns = result["in_turns"]
    tokens = turns["tokens_disaggregated"]
    margins, places = sorted(tokens["margins_there"]), sorted(tokens["first_differences"])
    refused = sum(turns["refused"].values())
    yield ""
    yield "The same card for pods in turns (`--gpu host,replicas=4`), one with all of the model and"
    yield "two with server and encoder, until device time ended:"
    yield ""
    yield (
        f"- Answers of 24 tokens: {turns['answers_disaggregated_equal']} equal; of "
        f"{tokens['tokens']} tokens {tokens['equal']} of {tokens['answers']}. They part at token "
        f"{', '.join(map(str, places))}, where the two likeliest are {margins[0]} to "
        f"{margins[-1]} apart ({tokens['median_margin']:g} is the median of all tokens): near ties "
        "of random weights, decided by that rounding. In float32 on the processor all are equal."
    )
    yield (
        f"- {refused:.0f} requests were refused with 503: the gateway's own requests, by which it "
        "measures work while no client comes, filled the engine's batch and its queue when clients "
        "came. They take no more than the batch since."
    )
    yield ""
    yield from processes(result)


def _shape(found: dict[str, Any], clients: int) -> Iterator[str]:
    if compared := found.get("compared"):
        rows = [[name, one["ratio"], one["goal"], _met(one)] for name, one in compared.items()]
        yield from table(["ratio to one card", "measured", "goal", ""], rows)
        yield ""
    if (seconds := found.get("encoding_seconds")) and (rate := found.get("prompts_a_second")):
        encoding, prompt = seconds * 1e3, 1e3 / rate
        most = (encoding + prompt) / max(encoding, prompt)
        goal = "within" if most >= IMAGES else "out of"
        yield (
            f"- Encoding takes {encoding:.1f} ms an image (of eight together), a prompt of as many "
            f"tokens {prompt:.1f} ms (of {clients} clients): two cards give at most {most:.2f} "
            f"times the images, so {IMAGES} is {goal} reach."
        )
    for name in ("one", "disaggregated"):
        one = found.get(name) or {"streams": None}
        if all(value for part, value in one.items() if part != "refused"):
            first, streams = one["first_text_ms"], one["streams"]
            said = [
                f"- {name}: first text of a new image {first['p50']} ms (p95 {first['p95']}),",
                f"{one['images_a_second']} images/s, p95 between tokens of eight streams",
                f"{streams['alone']['p95_ms']} ms alone and",
                f"{streams['beside_images']['p95_ms']} ms beside four image clients.",
            ]
            yield " ".join(said)
    if found.get("two_units"):
        yield f"- A unit on each card: {found['two_units']} images/s."
    if answered := found.get("answers_alike"):
        said = [
            f"- Equal answers: streamed and unary {answered['streamed_equal_to_unary']}, of the",
            f"other replica {answered.get('other_replica_equal', 'not compared')}, with a",
            f"disaggregated encoder {found.get('answers_disaggregated_equal', 'not compared')}.",
        ]
        yield " ".join(said)
    if found.get("two_units") and (cards := found.get("cards_alike")):
        seen = found.get("cards_disaggregated") or {}
        yield (
            f"- Cards: {cards['different']} for two replicas, {seen.get('different', 'unknown')} "
            "for server and encoder; each pod sees one."
        )


def _met(one: dict[str, Any]) -> str:
    sign, goal = one["goal"].split()
    reached = one["ratio"] <= float(goal) if sign == "<=" else one["ratio"] >= float(goal)
    return "met" if reached else "**missed**"


def _ranks(found: dict[str, Any]) -> Iterator[str]:
    yield "vLLM with `parallelism.tensor: 2`, a rank on each GPU; NCCL and vLLM without NVLink's"
    yield "multicast."
    yield ""
    if memory := found.get("memory"):
        names = ("planned_bytes", "counted_bytes", "planned_over_counted", "rest_over_counted")
        pairs = zip(*(memory[name] for name in names), strict=False)
        rows: list[list[object]] = [
            [rank, f"{planned / MIB:,.0f} / {counted / MIB:,.0f}", over, rest]
            for rank, (planned, counted, over, rest) in enumerate(pairs)
        ]
        head = ["rank", "MiB planned / counted", "planned over counted"]
        yield from table([*head, "without keys and values"], rows)
        yield ""
        met = all(1 <= over <= PLANNED for over in memory["planned_over_counted"])
        notes = " ".join(["", *memory.get("notes", [])])
        yield f"- Planned over counted: {verdict(met, f'1 to {PLANNED}')}.{notes}"
    for name, one in found.items():
        if name.startswith("answers of") and one:
            yield f"- {_answers(name, one)}"
    yield ""
    rows = [
        [f"{way}, {count} at once", one["tokens_per_second"], one["pause_p50_ms"]]
        for streams in ("streams", "streams_of_ranks_alone")
        for count, ways in found.get(streams, {}).items()
        for way, one in ways.items()
        if one
    ]
    yield from table(["answers of 128 tokens about new images", "tokens/s", "pause p50, ms"], rows)
    yield ""


def _answers(name: str, one: dict[str, Any]) -> str:
    text = f"Temperature 0, {name}: {one['equal']} of {one['answers']} have the same tokens"
    if one["first_differences"]:
        places = ", ".join(map(str, sorted(one["first_differences"])))
        margins = sorted(one["margins_there"])
        text += (
            f"; the others part at token {places} of {one['tokens']}, where the two likeliest are "
            f"{margins[0]} to {margins[-1]} apart (logarithms; {one['median_margin']:.2g} is the "
            "median of all tokens)"
        )
    return f"{text}."


def _units(backend: str, found: dict[str, Any]) -> Iterator[str]:
    firsts, beside = found.get("first_text_ms") or {}, found.get("beside_images") or {}
    images = found.get("images_a_second") or {}
    rows: list[list[object]] = []
    for way in ("one", "disaggregated", "one and other"):
        pauses = beside.get(way)
        first = firsts.get(way)
        cells: list[object] = [f"{first['p50']} / {first['p95']}" if first else "-"]
        cells.append(images.get(way) or "-")
        cells += [
            f"{pauses[part]['p50_ms']} / {pauses[part]['p95_ms']}" if pauses else "-"
            for part in ("alone", "beside_images")
        ]
        cells.append(pauses["beside_images"]["images_per_second"] if pauses else "-")
        rows.append([way, *cells])
    head = [backend, "first text of a new image, ms p50 / p95", "images/s"]
    head += ["between tokens alone, ms p50 / p95", "beside images", "images/s beside"]
    yield from table(head, rows)
    yield ""
    if firsts.keys() >= {"one", "disaggregated"}:
        ratio = round(firsts["disaggregated"]["p50"] / firsts["one"]["p50"], 2)
        met = verdict(ratio <= FIRST_TEXT, f"at most {FIRST_TEXT}")
        yield f"- {backend}: first text of `disaggregated`: {ratio} times one card's ({met})."
    if pauses := beside.get("disaggregated"):
        met = verdict(pauses["p95_ratio"] <= PAUSES, f"at most {PAUSES}")
        yield f"- {backend}: p95 beside images: {pauses['p95_ratio']} times ({met})."
    for way, least in (("disaggregated", IMAGES), ("one and other", UNITS)):
        if images.get(way) and images.get("one"):
            ratio = round(images[way] / images["one"], 2)
            met = verdict(ratio >= least, f"at least {least}")
            yield f"- {backend}: images a second of `{way}`: {ratio} times one card's ({met})."
    yield ""


def _former(clients: int) -> Iterator[str]:
    cases = json.loads(FORMER.read_text(encoding="utf-8"))["cases"]
    one, two = cases["7b"], cases["7b:disaggregated"]
    firsts = [case["first_text_ms"]["fresh"]["p50_ms"] for case in (one, two)]
    images = [case["beside_images"]["beside_images"]["images_per_second"] for case in (one, two)]
    ratio = two["beside_images"]["p95_ratio"]
    yield (
        "A model of 7 B on one card is `one`; with its encoder on the second card it is "
        "`disaggregated`; `one and other` is the same model on each card. "
        f"{clients} clients of each gateway that want one token give the images a second; "
        "beside eight streams, four clients "
        "give them. Where vLLM's servers share a card, a flag gives them the planned bytes for "
        f"keys and values. The former engine of Reference had {firsts[0]} (`one`) and "
        f"{firsts[1]} ms (`disaggregated`) to the first text, {images[0]} and {images[1]} images a "
        f"second beside eight streams, and {ratio} times the p95 between tokens (`disaggregated`)."
    )
