"""Does tiny-llava answer on CUDA as on the processor? All committed questions, and its logits.

    python bench/gpu/answers.py --out bench/gpu/results/answers.json

One engine (vision engine Torch) behind Triton and the gateway, with the device of its serving plan
CPU and then CUDA. Logits: the language model alone, a prompt with image rows and 40 tokens decoded.
With `--devices CPU` it runs without a GPU. `--vision-engine TensorRT` builds one on the GPU, which
serves on CUDA alone.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import torch
from gpu_record import RESULTS, write
from sites import Site, chat, make_site, send

from mm_api.documents.serving_plan import Device, MemoryPools
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import Part
from mm_runtime.serving.device import open_device
from mm_runtime.serving.generate.request import Request
from support.real_gateway import run_pair
from support.tiny_llava import CHECKPOINT, samples

STEPS = 40
SPEC = {
    "engine": {"maxBatchSize": 8, "maxImagesPerRequest": 1},
    "vision": {"engine": "Torch"},
}


def answers(site: Site, device: str, folder: Path) -> dict[str, Any]:
    """Return what the model answers to every question, and how long Ready took."""
    pools = MemoryPools(cuda_bytes=64 << 20, pinned_bytes=0, shm_bytes=256 << 20)
    engine = site.served_by(f"plan-{device}", device=device, pools=pools, sharing=None)
    folder.mkdir()
    began = time.monotonic()
    with run_pair(engine, folder) as pair, httpx.Client() as client:
        ready = time.monotonic() - began
        given = [
            send(
                client,
                chat(pair.url, pair.model, one.question, [one.image.read_bytes()], tokens=24),
            )
            for one in samples()
        ]
        assert pair.server.poll() is None
        log = pair.server_log.read_text(errors="replace")
    return {"ready_seconds": round(ready, 1), "answers": given, "errors": log.count("ERROR")}


def logits(device: Device, dtype: str) -> torch.Tensor:
    """Return float32 logits [positions, vocabulary] of a prompt with image rows and its answer."""
    place = open_device(device)
    model = LanguageModel(
        Checkpoint(
            folder=CHECKPOINT, family="llava", dtype=dtype, slots=2, max_length=256, device=place
        )
    )
    torch.manual_seed(5)
    table = torch.randn(16, model.hidden_size)
    size = model.vocabulary_size
    ids = (2, *(size + row for row in range(16)), *range(10, 50))
    request = Request(ids=ids, table=table.numpy(), max_tokens=STEPS, end_ids=frozenset())
    prompt = model.begin(0, request)
    passed = model.run([], [], Part(0, prompt))
    found = [model.logits(passed.read).cpu()]
    # The same tokens on every device: what differs is the arithmetic alone.
    for step in range(STEPS):
        decoded = model.run([10 + step % 40], [len(ids) + step]).decoded
        found.append(model.logits(decoded).cpu())
    return torch.cat(found)


def compared(found: torch.Tensor, wanted: torch.Tensor) -> dict[str, float | int]:
    """Return how far logits are from the reference's."""
    return {
        "positions": len(wanted),
        "max_difference": float((found - wanted).abs().max()),
        "relative_norm": float((found - wanted).norm() / wanted.norm()),
        "same_argmax": int((found.argmax(-1) == wanted.argmax(-1)).sum()),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "answers.json")
    parser.add_argument("--devices", nargs="+", default=["CPU", "CUDA"])
    parser.add_argument("--vision-engine", choices=("Torch", "TensorRT"), default="Torch")
    options = parser.parse_args()
    tensorrt = options.vision_engine == "TensorRT"
    devices: list[Device] = ["CUDA"] if tensorrt else options.devices
    spec = {**SPEC, "vision": {"engine": options.vision_engine}}
    right = [one.answer for one in samples()]
    served: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="answers-") as temporary:
        folder = Path(temporary)
        site = make_site(
            folder / "site", CHECKPOINT, device="CUDA" if tensorrt else "CPU", spec=spec
        )
        for device in devices:
            served[device] = answers(site, device, folder / f"serve-{device}")
    first = served[devices[0]]["answers"]
    reference = logits("CPU", "float32")
    result = {
        "questions": len(right),
        "served": {
            device: {
                "right": sum(a == b for a, b in zip(one["answers"], right, strict=True)),
                "equal_to_first": sum(a == b for a, b in zip(one["answers"], first, strict=True)),
                "ready_seconds": one["ready_seconds"],
                "error_lines": one["errors"],
            }
            for device, one in served.items()
        },
        "logits_against_cpu_float32": {
            f"{device} {dtype}": compared(logits(device, dtype), reference)
            for device in devices
            for dtype in ("float32", "float16", "bfloat16")
        },
    }
    write(options.out, "python bench/gpu/answers.py", result)


if __name__ == "__main__":
    main()
