"""Inter-token time of a decoder while an image tower encodes without pause, on one GPU.

Two processes as in a pod: time slices (no daemon), MPS with all threads for the encoder, MPS with
a share. Uses `mm_runtime.launch.mps` for the daemon, as the server does. Needs a GPU, CUDA's MPS
programs and torch; loads of the size of real ones: 24 layers of CLIP ViT-L/14-336, and a decoder of
1.3 B parameters in bfloat16 with a batch of 16.

    python bench/sharing/gpu_sharing.py --out bench/sharing/results/h100.json
    python bench/sharing/gpu_sharing.py --cases shares --seconds 4 \
        --out bench/sharing/results/h100_shares.json

The second form measures images a second at every share that the plan chooses from, for towers of
three sizes: what `mm_operator.plan.engine.encoders` reckons with.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 8.0
"""Of decoding a case: about 2,500 steps."""

TOWERS = {
    "clip-vit-l-336": (24, 577, 1024, 16, 4096),
    "siglip-so400m-384": (27, 729, 1152, 16, 4304),
    "qwen2-vl-5184": (32, 5184, 1280, 16, 5120),
}
"""Name -> layers, positions, width, heads, width inside: LLaVA 1.5's tower, LLaVA-OneVision's, and
one of Qwen2-VL's size with the largest image of its profile."""

SHARES = ("25", "30", "35", "40", "45", "50")

START_SECONDS = 120.0

DECODER = """
import json, sys, time, torch
torch.manual_seed(0)
width, layers, batch, context = 2048, 24, 16, 1024
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q = torch.nn.Linear(width, 3 * width, bias=False)
        self.o = torch.nn.Linear(width, width, bias=False)
        self.up = torch.nn.Linear(width, 4 * width, bias=False)
        self.down = torch.nn.Linear(4 * width, width, bias=False)
    def forward(self, x, keys, values):
        q = self.q(x)[..., :width].view(batch, 16, 1, 128)
        a = torch.nn.functional.scaled_dot_product_attention(q, keys, values)
        x = x + self.o(a.reshape(batch, 1, width))
        return x + self.down(torch.nn.functional.gelu(self.up(x)))
with torch.inference_mode():
    model = torch.nn.ModuleList([Layer() for _ in range(layers)]).cuda().bfloat16()
    kv = torch.randn(2, batch, 16, context, 128, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(batch, 1, width, device="cuda", dtype=torch.bfloat16)
    def step():
        h = x
        for layer in model:
            h = layer(h, *kv)
        return h
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay(); torch.cuda.synchronize()
    print("ready", flush=True); sys.stdin.readline()
    times, end = [], time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        began = time.perf_counter(); graph.replay(); torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    times.sort()
    n = len(times)
    print(json.dumps({"steps": n, "p50_ms": times[n // 2], "p95_ms": times[int(n * .95)],
                      "parameters": sum(p.numel() for p in model.parameters())}), flush=True)
"""

ENCODER = """
import json, sys, time, torch
sys.path.insert(0, sys.argv[3])
from mm_runtime.serving.encode.shares import limit_this_process
limit_this_process({"mps_thread_percentage": sys.argv[4]})
torch.manual_seed(0)
batch, (layers, positions, width, heads, inner) = int(sys.argv[2]), json.loads(sys.argv[5])
with torch.inference_mode():
    layer = torch.nn.TransformerEncoderLayer(width, heads, inner, activation="gelu",
                                             batch_first=True, norm_first=True)
    tower = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    tower = tower.cuda().half().eval()
    x = torch.randn(batch, positions, width, device="cuda", dtype=torch.float16)
    for _ in range(3):
        tower(x)
    torch.cuda.synchronize()
    print("ready", flush=True); sys.stdin.readline()
    runs, began = 0, time.monotonic()
    while time.monotonic() < began + float(sys.argv[1]):
        tower(x); torch.cuda.synchronize(); runs += 1
    print(json.dumps({"images_per_second": runs * batch / (time.monotonic() - began)}), flush=True)
"""


def case(
    *, batch: int, mps: bool, share: str, tower: str = "clip-vit-l-336", seconds: float = SECONDS
) -> dict[str, Any]:
    """Return what decoder and encoder did side by side; batch 0: the decoder alone."""
    sys.path.insert(0, str(ROOT / "runtime"))
    from mm_runtime.launch.mps import MpsDaemon  # noqa: PLC0415 (the path is set above)

    with ExitStack() as stack:
        environment, daemon = dict(os.environ), None
        if mps:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mps"))
            daemon = stack.enter_context(MpsDaemon(Path(folder)))
            environment |= daemon.environment
        commands = [[sys.executable, "-c", DECODER, str(seconds)]]
        if batch:
            arguments = [str(seconds + 2), str(batch), str(ROOT / "runtime"), share]
            shape = json.dumps(TOWERS[tower])
            commands.append([sys.executable, "-c", ENCODER, *arguments, shape])
        running = [
            subprocess.Popen(
                one, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for one in commands
        ]
        for process in running:
            stack.callback(process.kill)
        for process in running:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        found: dict[str, Any] = {"encoder_batch": batch, "mps": mps, "share": share, "tower": tower}
        if daemon:
            clients = daemon.clients()
            found |= {"clients": len(clients), "joined": len(clients) >= len(running)}
        for process in reversed(running):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
            time.sleep(1.0 if len(running) > 1 and process is running[-1] else 0)
        for process in running:
            said, _ = process.communicate(timeout=START_SECONDS)
            found |= json.loads(said.splitlines()[-1])
        return found


def ways() -> list[dict[str, Any]]:
    """Return the cases that compare time slices with MPS."""
    cases: list[dict[str, Any]] = [{"batch": 0, "mps": False, "share": ""}]
    for batch in (1, 4, 16):
        cases.append({"batch": batch, "mps": False, "share": ""})
        cases += [{"batch": batch, "mps": True, "share": share} for share in ("", "50", "25")]
    return cases


def shares() -> list[dict[str, Any]]:
    """Return the cases that report how fast towers of three sizes are at every share."""
    cases: list[dict[str, Any]] = [{"batch": 0, "mps": False, "share": ""}]
    sizes = [
        *(("clip-vit-l-336", batch) for batch in (1, 4, 16)),
        ("siglip-so400m-384", 4),
        ("qwen2-vl-5184", 1),
    ]
    for tower, batch in sizes:
        cases += [{"batch": batch, "mps": True, "share": share, "tower": tower} for share in SHARES]
    return cases


def main() -> None:
    """Run every case, print a table, write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases", choices=["ways", "shares"], default="ways")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    planned = ways() if options.cases == "ways" else shares()
    cases = []
    for one in planned:
        cases.append(case(**one, seconds=options.seconds))
        print(json.dumps(cases[-1]), flush=True)
    alone = cases[0]["p95_ms"]
    print(f"decoder alone: {alone:.2f} ms p95")
    for one in cases[1:]:
        way = f"MPS {one['share'] or 100} %" if one["mps"] else "time slices"
        print(
            f"{one['tower']:18} {way:12} encoder batch {one['encoder_batch']:2}: "
            f"p95 {one['p95_ms'] / alone:.2f} x, {one['images_per_second']:.0f} images/s, "
            f"joined {one.get('joined', '-')}"
        )
    if options.out:
        found = {"towers": TOWERS, "alone_p95_ms": alone, "cases": cases}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
