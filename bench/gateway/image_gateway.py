"""A gateway process of a LLaVA with a tower of 336 x 336, before any Triton.

    python bench/gateway/image_gateway.py FOLDER TRITON_PORT

prints its port and answers until it is ended. Decoded images are kept, as a plan with
`vision.featureCacheBytes` says; its weights are nowhere, and its tokens are words of none.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

import uvloop  # noqa: E402

from mm_runtime.backends import BACKENDS  # noqa: E402
from mm_runtime.backends.triton_server.engine import TritonEngine  # noqa: E402
from mm_runtime.base.heap import return_large_pieces  # noqa: E402
from mm_runtime.gateway.wiring import build_gateway  # noqa: E402
from support.gateways import (  # noqa: E402 - the tests' folder is not a package
    serve,
    toy_manifest,
    toy_serving,
    write_processor,
)

SIDE, FEATURES = 336, 576
PROCESSOR = """{"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336},
"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}"""


def decode(tokens: Sequence[int]) -> str:
    """Return a word for each token."""
    return " word" * len(tokens)


async def run(folder: Path, triton: int) -> None:
    """Serve until the process is ended."""
    write_processor(folder)
    (folder / "processor" / "preprocessor_config.json").write_text(PROCESSOR)
    manifest = toy_manifest()
    plan = manifest.plan
    assert plan.facts.vision is not None
    vision = plan.facts.vision.model_copy(
        update={"image_size": SIDE, "features_per_image": FEATURES}
    )
    sizes = {"max_input_len": 1024, "max_seq_len": 1100, "max_multimodal_len": 4 * 4 * FEATURES}
    limits = plan.engine.limits.model_copy(update=sizes)
    changed = {
        "facts": plan.facts.model_copy(update={"vision": vision}),
        "engine": plan.engine.model_copy(update={"limits": limits}),
    }
    serving = toy_serving(max_image_bytes=4 << 20, max_image_pixels=50_000_000)
    gateway = build_gateway(
        manifest=manifest.model_copy(update={"plan": plan.model_copy(update=changed)}),
        serving=serving.model_copy(update={"feature_cache_bytes": 1 << 26}),
        engine_dir=folder,
        engine=TritonEngine(f"127.0.0.1:{triton}", decode),
        backend=BACKENDS[serving.backend],
        auth_token_file=None,
    )
    gateway.decoders.start()
    async with serve(gateway) as running:
        print(running.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    return_large_pieces()  # as the gateway's own process does
    uvloop.run(run(Path(sys.argv[1]), int(sys.argv[2])))
