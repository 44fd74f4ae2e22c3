"""Write docs/design/gpu-results.md and the pages beside it from bench/gpu/results.

python tools/generate_gpu_results.py           write
python tools/generate_gpu_results.py --check   exit 1 when the page is not what the results say
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from generated_files import settle
from gpu_cluster_results import cluster, shape
from gpu_result_tables import table, verdict
from gpu_serving_results import GOALS, one_pass, serving, tensorrt_pauses
from gpu_two_results import one_pod, pods, two
from gpu_vllm_results import vllm

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "bench" / "gpu" / "results"
PAGE: Final = ROOT / "docs" / "design" / "gpu-results.md"
VLLM_PAGE: Final = ROOT / "docs" / "design" / "gpu-results-vllm.md"
CLUSTER_PAGE: Final = ROOT / "docs" / "design" / "gpu-results-cluster.md"
TWO_PAGE: Final = ROOT / "docs" / "design" / "gpu-results-two.md"
MIB: Final = 1 << 20
Rows = Callable[[dict[str, Any]], Iterator[str]]

HEAD: Final = """# Results on a GPU

<!-- tools/generate_gpu_results.py writes this page from bench/gpu/results. -->

The Reference engine with CUDA (`spec.runtime.gpu.count: 1`), behind the real tritonserver and the
gateway. Weights are random, except tiny-llava's. TensorRT-LLM did not run there, TensorRT ran for
vision encoders: see [evidence](evidence.md#not-shown). What was measured of vLLM:
[its own page](gpu-results-vllm.md); in a Kubernetes with a GPU: [another](gpu-results-cluster.md);
on two GPUs of one host: [a third](gpu-results-two.md).
"""
VLLM_HEAD: Final = """# vLLM's own server on a GPU, and the gateway before it

<!-- tools/generate_gpu_results.py writes this page from bench/gpu/results. -->
"""
COMMANDS: Final = {"cluster_7b": "cluster.py --shape 7b"}
CLUSTER_HEAD: Final = """# The main job in a cluster with a GPU

<!-- tools/generate_gpu_results.py writes this page from bench/gpu/results. -->
"""
TWO_HEAD: Final = """# Two GPUs of one host

<!-- tools/generate_gpu_results.py writes this page from bench/gpu/results. -->
"""


def filled(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines whose sentences fill 138 columns; tables, lists and titles stay as they are."""
    for is_prose, some in groupby(lines, lambda line: line[:1].isalpha()):
        found = list(some)
        yield from wrap(" ".join(found), 138) if is_prose else found


def page(head: str, sections: Iterable[tuple[str, str, Rows]]) -> str:
    """Return a page of several results."""
    parts = [head]
    for name, title, rows in sections:
        parts += [f"## {title}\n", _section(name, rows)]
    return "\n".join(parts)


def _section(name: str, rows: Rows) -> str:
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return f"Not measured yet: `python bench/gpu/{COMMANDS.get(name, name + '.py')}`.\n"
    result = json.loads(path.read_text(encoding="utf-8"))
    return "\n".join([*filled(rows(result)), "", _where(result)]) + "\n"


def _where(result: dict[str, Any]) -> str:
    machine, versions = result["machine"], result["versions"]
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"`{result['command']}` on {machine['gpu']}, {machine['cores']} cores; {listed}."


def _answers(result: dict[str, Any]) -> Iterator[str]:
    questions = result["questions"]
    yield from table(
        ["tiny-llava on", "right", "equal to the first row", "Ready after"],
        [
            [
                device,
                f"{one['right']} of {questions}",
                f"{one['equal_to_first']} of {questions}",
                f"{one['ready_seconds']} s",
            ]
            for device, one in result["served"].items()
        ],
    )
    yield ""
    yield from table(
        [
            "language model",
            "largest logit difference",
            "relative norm",
            "same likeliest token",
        ],
        [
            [
                name,
                f"{one['max_difference']:.2g}",
                f"{one['relative_norm']:.2g}",
                f"{one['same_argmax']} of {one['positions']}",
            ]
            for name, one in result["logits_against_cpu_float32"].items()
        ],
    )
    yield ""
    yield "Differences are to float32 on the processor, for a prompt with image rows and 40 tokens."


def _pool(result: dict[str, Any]) -> Iterator[str]:
    size = result["table_bytes"]
    clients = ", ".join(map(str, result["clients_at_a_time"]))
    yield f"S = {size:,} bytes; {clients} clients at a time, each image another one. Sums of the"
    yield "bits of each prompt table are taken where it leaves the encoder and where the language"
    yield "model has read it. Tables count what the gateway sends before it is ready, too. What is"
    yield "refused is answered 503: send it again."
    yield ""
    yield from table(
        ["pool", "requests", "tables read", "with other bits", "refused: pool full", "failed"],
        [
            [
                _pool_name(name, one, size),
                one["requests"],
                one["tables_read"],
                one["tables_with_other_bits"],
                one["refused_pool_full"],
                sum(one["failed"].values()),
            ]
            for name, one in result["pools"].items()
        ],
    )
    bls = [one["through_bls"] for one in result["pools"].values() if one["through_bls"]]
    for one in bls:
        yield ""
        yield (
            f"Through `tensorrt_llm_bls`, at the planned size: {one['requests']} requests, "
            f"{one['failed']} failed."
        )


def _pool_name(name: str, one: dict[str, Any], size: int) -> str:
    if name == "planned":
        return f"planned ({one['pool_bytes'] / size:.1f} S)"
    return f"{name} S"


def _memory(result: dict[str, Any]) -> Iterator[str]:
    yield "Each at its fullest: as many requests as the gateway takes, with images, long"
    yield "prompts and answers, on servers that share the GPU and the processor with other"
    yield "measurements, which slows the times below."
    if result.get("earlier"):
        names = " and ".join(f"`{name}`" for name in result["earlier"])
        yield f"The rows of {names} are of an earlier run, with the plan of that version."
    yield from result.get("notes", [])
    yield ""
    yield from table(
        ["size", "planned MiB", "nvidia-smi MiB", "planned over counted", "by process, MiB"],
        [
            [
                name,
                f"{one['planned_bytes'] / MIB:,.0f}",
                f"{one['counted_bytes'] / MIB:,.0f}",
                one["planned_over_counted"],
                ", ".join(
                    f"{process.rsplit(' ', 1)[0]} {count / MIB:,.0f}"
                    for process, count in one["counted_full_bytes"].items()
                ),
            ]
            for name, one in result["sizes"].items()
        ],
    )
    rows = [
        [name, ", ".join(f"{process} {more / MIB:+,.0f}" for process, more in found.items())]
        for name, one in result["sizes"].items()
        if (found := one.get("planned_less_counted"))
    ]
    if rows:
        yield ""
        yield from table(["size", "planned less counted by process, MiB"], rows)
    yield ""
    yield from table(
        ["size", "Ready after", "first text of one stream with an image", "GPU shared by"],
        [
            [
                name,
                f"{one['seconds']['ready']} s",
                f"{one['one_stream']['first_text_ms']} ms",
                one["sharing"],
            ]
            for name, one in result["sizes"].items()
        ],
    )
    yield ""
    yield "The time to the first text has the making of the client in it, which loads certificates."


def _speed(result: dict[str, Any]) -> Iterator[str]:
    first = next(iter(next(iter(result["shapes"].values())).values()))
    batches = [f"batch {batch}" for batch in first["steps_by_batch"]]
    yield from table(
        ["model", "computed", *batches, "prompt of 600"], _speeds(result, "step_ms", "over")
    )
    yield ""
    yield f"Milliseconds of a decoding step at {result['context']} positions, in brackets over the"
    yield "roofline: weights, keys and values over 3.35 TB/s, the memory of an H100. Random weights"
    yield "in bfloat16. The same where steps follow each other without a copy of their tokens to"
    yield "the processor:"
    yield ""
    rows = [row[:-1] for row in _speeds(result, "gpu_ms", "gpu_over")]
    yield from table(["model", "computed", *batches], rows)
    yield ""
    for name, ways in result["shapes"].items():
        overs = [step["gpu_over"] for step in ways["fused"]["steps_by_batch"].values()]
        wanted = GOALS[name]["gpu_over"]
        yield (
            f"- {name}: {min(overs)} to {max(overs)} times the roofline "
            f"({verdict(max(overs) <= wanted, f'at most {wanted:g}')})."
        )
    yield ""
    yield "Kernel by kernel and as a graph of torch's own kernels:"
    yield "[the study](../studies/decoding-steps.md)."


def _speeds(result: dict[str, Any], took: str, over: str) -> list[list[object]]:
    return [
        [
            name,
            way,
            *(f"{step[took]} ({step[over]})" for step in one["steps_by_batch"].values()),
            one["prompt_600_ms"],
        ]
        for name, ways in result["shapes"].items()
        for way, one in ways.items()
    ]


def _towers(result: dict[str, Any]) -> Iterator[str]:
    batches = next(iter(result["ways"].values()))["images_per_second"]
    rows: list[list[object]] = [
        [way, *(f"{rates[batch]:,.0f} ({one['without_copies'][batch]:,.0f})" for batch in batches)]
        for way, one in result["ways"].items()
        for rates in [one["images_per_second"]]
    ]
    yield from table([result["tower"], *(f"batch {batch}" for batch in batches)], rows)
    yield ""
    yield "Images a second of runs that are waited for, pixels from host memory; in brackets"
    yield "without waiting, pixels on the GPU. Random weights."


def _tensorrt(result: dict[str, Any]) -> Iterator[str]:
    rows: list[list[object]] = []
    for family, one in result["towers"].items():
        if "error" in one:
            continue
        ours, torchs = one["TensorRT"], one["Torch"]
        rates = ours["without_copies"]
        cells = {
            batch: f"{rate:,.0f} ({rate / torchs['without_copies'][batch]:.2f})"
            for batch, rate in rates.items()
        }
        build = f"{one['build']['build_s']:.0f} s, {one['build']['size_bytes'] / MIB:,.0f} MiB"
        distance = f"{ours['relative_distance']:.2g} ({torchs['relative_distance']:.2g})"
        rows.append([family, build, *(cells.get(batch, "") for batch in ("1", "4", "8")), distance])
    yield from table(["vision half", "build", "batch 1", "4", "8", "distance to float32"], rows)
    yield ""
    yield "Images a second of runs that are only started, pixels on the GPU; in brackets over"
    yield "the rate of `Torch` in the same run, which computes in float16 with CUDA graphs where"
    yield "images are squares and in float32 for others. Distances are relative norms, those of"
    yield "torch in brackets. Sides are 336 (llava), 384 (llava-onevision), 224 (blip2-opt) and 448"
    yield "pixels (qwen2-vl, qwen2-5-vl); mllama has four tiles of 560. Engines are for at most"
    yield "sixteen squares or four others; a number after a family is another limit."
    for family, one in result["towers"].items():
        if again := one.get("build_with_timing_cache"):
            yield f"A second build of {family} with the timing cache took {again['build_s']:.0f} s."
    yield from result.get("notes", [])


def _choosing(result: dict[str, Any]) -> Iterator[str]:
    shapes = result["shapes"]
    batches = next(iter(shapes.values()))["step_ms"]["greedy"]
    rows: list[list[object]] = [
        [name, way, *by_batch.values()]
        for name, one in shapes.items()
        for way, by_batch in one["step_ms"].items()
    ]
    yield from table(["model", "tokens", *(f"batch {batch}" for batch in batches)], rows)
    yield ""
    yield f"Milliseconds of a step at {result['context']} positions with the choice of its tokens,"
    yield "all rows alike. `row by row` copies the logits of each row to the processor, where the"
    yield "same code chooses. Random weights in bfloat16."


def _faults(result: dict[str, Any]) -> Iterator[str]:
    yield from table(
        [
            "fault",
            "answers until it is over",
            "503 without Retry-After",
            "right again after",
            "Ready takes",
            "GPU MiB before, after",
        ],
        [
            [
                f"{what} {name}",
                ", ".join(f"{count} x {status}" for status, count in one["statuses"].items()),
                one["unavailable_without_retry_after"],
                f"{one['back_seconds']} s",
                f"{one['ready_seconds']} s",
                f"{one['gpu_mib_before']:,}, {one['gpu_mib_after']:,}",
            ]
            for what, key in (("SIGKILL of", "killed"), ("GPU lost by", "lost"))
            for name, one in result[key].items()
        ],
    )
    yield ""
    yield "tiny-llava, four clients that send images without pause and try again 0.1 s after an"
    yield "error. A GPU is lost by an index past the end of a tensor: CUDA fails every later call"
    left = result["left_mib"]
    yield f"of the process. After the last server had ended, {left} MiB of the GPU were in use."
    yield "Where another program has left too little memory, `mm-runtime serve` ends at its start:"
    yield ""
    yield from table(
        ["MiB free", "exit code", "after", "says"],
        [
            [
                f"{one['free_mib']:,}",
                one["exit_code"],
                f"{one['seconds']} s",
                one["message"].split("; torch says")[0],
            ]
            for one in result["full"]
        ],
    )


def _engine(result: dict[str, Any]) -> Iterator[str]:
    shapes = result["shapes"]
    batches = sorted({batch for one in shapes.values() for batch in one.get("engine", {})}, key=int)
    rows: list[list[object]] = [
        [name, who, *(_cell(one.get(part, {}).get(batch), key, over) for batch in batches)]
        for name, one in shapes.items()
        for who, part, key, over in (
            ("`Engine`, ms a step (over the roofline)", "engine", "step_ms", "over"),
            ("`generate`, ms a step", "generate", "step_ms", None),
            ("`Engine`, tokens a second", "engine", "tokens_per_second", None),
            ("`generate`, tokens a second", "generate", "tokens_per_second", None),
            ("`Engine`, with prompts", "engine", "tokens_per_second_with_prompts", None),
            ("`generate`, with prompts", "generate", "tokens_per_second_with_prompts", None),
        )
    ]
    yield from table(["model", "", *(f"batch {batch}" for batch in batches)], rows)
    yield ""
    for name, one in shapes.items():
        for batch, other in one.get("generate", {}).items():
            mine = one["engine"][batch]
            ratio = mine["tokens_per_second"] / other["tokens_per_second"]
            wanted = 3.0 if batch == "1" else 2.5
            yield (
                f"- {name}, batch {batch}: {ratio:.1f} times the tokens a second of `generate` "
                f"({verdict(ratio >= wanted, f'at least {wanted:g}')})."
            )
        overs = [step["over"] for step in one.get("engine", {}).values()]
        if overs and name in GOALS:
            wanted = GOALS[name]["engine_over"]
            yield (
                f"- {name}: a step of `Engine` takes {min(overs)} to {max(overs)} times the "
                f"roofline ({verdict(max(overs) <= wanted, f'at most {wanted:g}')})."
            )
    yield ""
    same = ", ".join(f"{one['equal_leading_tokens']} ({name})" for name, one in shapes.items())
    yield f"Prompts of {result['prompt']} tokens, {result['answer']} more of each, all at once, in"
    yield "one process without Triton; `with prompts` is the entire run. `generate` is that of"
    yield "transformers, with the same weights in the same process, its default cache and no"
    yield "compilation. Random weights in"
    yield f"bfloat16, whose likeliest tokens are close to others: at batch 1 the first {same}"
    yield "tokens are the same for both."


def _cell(step: dict[str, Any] | None, key: str, over: str | None) -> object:
    if step is None:
        return "-"
    return step[key] if over is None else f"{step[key]} ({step[over]})"


def _evaluation(result: dict[str, Any]) -> Iterator[str]:
    yield from table(
        ["engine", "ready", "tokens compared", "equal", "near ties", "prompts that differ"],
        [
            [
                name,
                "yes" if one["ready"] else "never: `EvaluationFailed`",
                one["tokens"],
                one["agreed"],
                one["near_ties"],
                f"{one['failed_prompts']} of {one['prompts']}",
            ]
            for name, one in result["cases"].items()
        ],
    )
    yield ""
    yield "The checkpoint answered at build, on the processor. `:weights` and `:tokenizer` have one"
    yield "file changed after the build, and its digest with it."


def _energy(result: dict[str, Any]) -> Iterator[str]:
    for one in result["gpus"].values():
        yield f"In {result['seconds']} s with {result['answered']:,} answers of tiny-llava, beside"
        yield "other work on the same GPU, Triton's counter `nv_energy_consumption`, which the"
        yield f"board of costs reads, rose by {one['triton_joules']:,.0f} joules, and the driver's"
        yield f"total energy (NVML) by {one['nvml_joules']:,.0f}: {one['ratio']:.3f} times. Triton"
        yield "reads every two seconds."


SECTIONS: Final[tuple[tuple[str, str, Rows], ...]] = (
    ("answers", "The same answers as on the processor", _answers),
    ("evaluation", "Engines that answer like their checkpoint", _evaluation),
    ("pool", "A full memory pool never gives a wrong answer", _pool),
    ("memory", "Planned and counted GPU memory", _memory),
    ("speed", "Decoding steps of the language model", _speed),
    ("engine", "The engine, and transformers' generate", _engine),
    ("serving", "Through Triton and the gateway", serving),
    ("one_pass", "Part of a prompt beside tokens", one_pass),
    ("choosing", "Sampling", _choosing),
    ("towers", "The vision encoder", _towers),
    ("tensorrt", "Vision encoders of TensorRT", _tensorrt),
    ("serving_tensorrt", "Pauses beside images, by vision engine", tensorrt_pauses),
    ("energy", "Energy", _energy),
    ("faults", "Processes that die, GPUs that fail", _faults),
)
TWO_SECTIONS: Final[tuple[tuple[str, str, Rows], ...]] = (
    ("two", "Ranks, an encoder's own card, a unit on each", two),
    ("two_pods", "The same in pods of a cluster", pods),
    ("one_pod", "One card in a pod", one_pod),
    ("serving_two_gpus", "The former engine, through Triton and the gateway", serving),
)
VLLM_SECTIONS: Final[tuple[tuple[str, str, Rows], ...]] = (
    ("vllm_steps", "The gateway before vLLM, and encoders beside it", vllm),
    ("vllm_gateway", "The gateway of a version before, with more clients", vllm),
    ("vllm", "All ways, with an older gateway", vllm),
)


if __name__ == "__main__":
    pages = {
        PAGE: page(HEAD, SECTIONS),
        TWO_PAGE: page(TWO_HEAD, TWO_SECTIONS),
        VLLM_PAGE: page(VLLM_HEAD, VLLM_SECTIONS),
        CLUSTER_PAGE: f"{CLUSTER_HEAD}\n{_section('cluster', cluster)}\n"
        f"## The 7 B shape\n\n{_section('cluster_7b', shape)}",
    }
    sys.exit(settle(pages, sys.argv[1:], ROOT))
