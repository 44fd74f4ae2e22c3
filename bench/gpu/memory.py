"""Does the planned GPU memory agree with the driver? Three sizes, each at its fullest.

    python bench/gpu/memory.py --out bench/gpu/results/memory.json

Each size is planned by the operator's code, built and served, all at the same time; `:TimeSlicing`
instead of MPS, `::TensorRT` with a vision engine of TensorRT, which has to be there. `example` is
examples/tiny-llava.yaml. Then as many requests as the gateway lets in, with as many images as a
request may have, with long prompts and answers, with every sampling parameter; nvidia-smi counts
the memory of all processes of the server. Torch returns nothing to the driver, so what it counts
afterwards is the peak of each process: `planned_less_counted` says which process a term is loose
for, or too tight where another one's hides it. Of host memory the kernel keeps each process's peak
(VmHWM, with mapped files) and what is its own (RssAnon) or shared (RssShmem).
"""

import argparse
import json
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checkpoints import SHAPES, write_checkpoint
from gpu_record import RESULTS, write
from sites import (
    Site,
    chat,
    gpu_bytes_by_process,
    host_bytes_by_process,
    make_site,
    noise,
    send_all,
    stream_times,
)

from mm_api.documents.serving_plan import ServingPlan
from mm_operator.plan.engine.memory import PROCESS_BYTES
from mm_operator.plan.engine.reference_memory import MPS_BYTES, SERVER_BYTES
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import CHECKPOINT

LIMITS = {
    "example": {"maxBatchSize": 4, "maxImagesPerRequest": 2},
    "tiny": {"maxBatchSize": 8, "maxImagesPerRequest": 1},
    "toy": {"maxBatchSize": 4, "maxImagesPerRequest": 1},
    "1.3b": {"maxBatchSize": 16, "maxImagesPerRequest": 1, "maxSeqLen": 1024},
    "7b": {"maxBatchSize": 16, "maxImagesPerRequest": 1, "maxSeqLen": 1024},
}
CASES = ["tiny", "tiny:TimeSlicing", "1.3b:TimeSlicing", "7b"]
OF_EXAMPLES = ("example", "tiny")
WORDS = "a red square and "
SAMPLING = {
    "temperature": 0.9,
    "top_p": 0.9,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "logprobs": True,
    "top_logprobs": 5,
}


def fill(pair: RealGateway, site: Site, side: int) -> dict[str, int]:
    """Send what takes the most memory; return how many were answered."""
    limits, plan = site.plan.build_plan.engine.limits, site.plan.serving_plan.gateway
    together = plan.max_concurrency
    most = limits.max_images_per_request
    images = [
        chat(
            *(pair.url, pair.model, "What is it?"),
            [noise(most * number + at, side) for at in range(most)],
            tokens=8,
        )
        for number in range(2 * together)
    ]
    sampled = [{**one, "json": one["json"] | SAMPLING | {"seed": 3}} for one in images]
    vision = site.plan.build_plan.engine.vision
    room = limits.max_input_len - (vision.features_per_image if vision else 0) - 48
    text = (WORDS * limits.max_input_len)[: max(8, room)]
    # A character is a token at the most, so that these prompts are as long as they may be.
    answer = max(8, limits.max_seq_len - limits.max_input_len)
    longest = [
        chat(pair.url, pair.model, text, [noise(500 + number, side)], tokens=answer)
        for number in range(2 * limits.max_batch_size)
    ]
    found = {}
    for name, requests in (("images", images), ("longest", longest), ("sampled", sampled)):
        answers = send_all(requests, together)
        errors = [str(one) for one in answers if isinstance(one, Exception)]
        found[f"{name}_answered"] = len(answers) - len(errors)
        found[f"{name}_sent"] = len(answers)
        for error in errors[:2]:
            print(name, error[:300])
    return found


def checkpoint_of(name: str, folder: Path, device: str) -> Path:
    """Write the checkpoint of a size and return its folder."""
    if name in OF_EXAMPLES:
        return CHECKPOINT
    written: Path = write_checkpoint(folder, name, device="cuda" if device == "CUDA" else "cpu")
    if device == "CUDA":
        import torch  # noqa: PLC0415 - what made the weights is not to lie beside the server

        torch.cuda.empty_cache()
    return written


def by_process(terms: dict[str, int], plan: ServingPlan) -> dict[str, int]:
    """Return what is planned for each process of a server."""
    is_mps = plan.sharing is not None and plan.sharing.mode == "MPS"
    mps = MPS_BYTES if is_mps else 0
    encoder = terms["context_bytes"] - SERVER_BYTES - PROCESS_BYTES - mps
    found = {
        "tritonserver": SERVER_BYTES + terms["cuda_pool_bytes"],
        "multimodal_encoders": encoder
        + terms["vision_engine_bytes"]
        + terms["vision_activation_bytes"],
        "tensorrt_llm": PROCESS_BYTES
        + sum(terms[f"{name}_bytes"] for name in ("weights", "prompt_table", "kv_cache", "other")),
    }
    return found | ({"nvidia-cuda-mps-server": mps} if mps else {})


def less(wanted: dict[str, int], full: dict[str, int]) -> dict[str, int]:
    """Return how many bytes more are planned than counted for each process."""
    counted = {name.rpartition(" ")[0]: used for name, used in full.items()}
    return {name: used - counted.get(name, 0) for name, used in wanted.items()}


def measured(case: str, checkpoint: Path, folder: Path, device: str) -> dict[str, object]:
    """Return planned and counted bytes of one size."""
    name, sharing, vision_engine = [*case.split(":"), "", ""][:3]
    began = time.monotonic()
    seconds = {}
    vision = {"engine": vision_engine or "Torch", **({"sharing": sharing} if sharing else {})}
    # bench/gpu/evaluation.py compares answers; here their minutes would only delay.
    spec = {"engine": LIMITS[name], "vision": vision, "build": {"evaluation": "Off"}}
    site = make_site(folder / "site", checkpoint, device=device, spec=spec)
    seconds["build"] = round(time.monotonic() - began, 1)
    work = folder / "serve"
    work.mkdir()
    side = 56 if name in {*OF_EXAMPLES, "toy"} else SHAPES[name].side
    began = time.monotonic()
    on_gpu = device == "CUDA"
    with run_pair(site.engine, work) as pair:
        seconds["ready"] = round(time.monotonic() - began, 1)
        idle = gpu_bytes_by_process(pair.server.pid, work) if on_gpu else {}
        answered = fill(pair, site, side)
        streamed = [
            stream_times(
                chat(pair.url, pair.model, "What is it?", [noise(900 + at, side)], tokens=128)
            )
            for at in range(3)
        ][-1]
        full = gpu_bytes_by_process(pair.server.pid, work) if on_gpu else {}
        host = host_bytes_by_process(pair.server.pid)
        logs = [one.read_text(errors="replace") for one in (pair.server_log, pair.gateway_log)]
    for log in logs:
        lines = [one for one in log.splitlines() if "MPS" in one or "rror" in one or "WARN" in one]
        print(case, *lines[:3], *lines[-6:], sep="\n")
    plan = ServingPlan.from_json(site.engine.serving.read_bytes())
    terms = [one.model_dump() for one in site.plan.memory.per_gpu]
    total = terms[0]["total_bytes"] if terms else 0
    counted = sum(full.values())
    found = {
        "spec": spec,
        "facts": json.loads(site.plan.build_plan.facts.to_json()),
        "seconds": seconds,
        "sharing": plan.sharing.mode if plan.sharing else None,
        **answered,
        "one_stream": streamed,
        "planned": terms[0] if terms else {},
        "counted_ready_bytes": idle,
        "counted_full_bytes": full,
        "counted_bytes": counted,
        "counted_host_bytes": host,
        "planned_host": site.plan.memory.host.model_dump(),
        "planned_by_process": by_process(terms[0], plan) if terms else {},
        "planned_less_counted": less(by_process(terms[0], plan), full) if full else {},
        "planned_bytes": total,
        "planned_over_counted": round(total / counted, 3) if counted else None,
    }
    print(case, found, flush=True)
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "memory.json")
    parser.add_argument("--device", default="CUDA")
    parser.add_argument("--shapes", nargs="+", default=CASES)
    parser.add_argument("--add", action="store_true", help="keep other rows of --out, as earlier")
    options = parser.parse_args()
    known = json.loads(options.out.read_text())["sizes"] if options.add else {}
    command = " ".join(["python", "bench/gpu/memory.py", *sys.argv[1:]])
    with tempfile.TemporaryDirectory(prefix="m-") as temporary, ThreadPoolExecutor() as pool:
        folder = Path(temporary)
        names = {case.partition(":")[0] for case in options.shapes}
        checkpoints = {
            name: checkpoint_of(name, folder / f"checkpoint-{name}", options.device)
            for name in sorted(names)
        }
        runs = {
            case: pool.submit(
                measured,
                case,
                checkpoints[case.partition(":")[0]],
                folder / str(number),
                options.device,
            )
            for number, case in enumerate(options.shapes)
        }
        sizes: dict[str, object] = {}
        for case, run in runs.items():
            try:
                sizes[case] = run.result()
            except Exception:  # noqa: BLE001 - the other sizes count
                traceback.print_exc()
            earlier = [name for name in known if name not in sizes]
            write(options.out, command, {"earlier": earlier, "sizes": known | sizes})


if __name__ == "__main__":
    main()
