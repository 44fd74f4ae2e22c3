"""What an image costs on its way from a body to the vision tower, step by step, in one process.

    python bench/gateway/image_path.py
    python bench/gateway/image_path.py --against 642472df

With `--against` the code of another commit takes turns with this checkout's, in processes of their
own: what else the machine does disturbs both alike. HTTP, gRPC and Triton are not in it. Images are
a JPEG of 336 x 336, as bench/gpu/serving.py sends, and a photograph of a megabyte; the model is a
LLaVA with a tower of 336 x 336. Writes bench/gateway/results/image_path.json.

- `receive`: chunks of a body to bytes; `parse`: to a request, whose large images are decoded from
  base64 by then; `base64`: the URL of a smaller one to a file;
  `known`: the look-up of a file that was decoded before.
- `decoder`: a file to pixels in a decoder's process, there and back; `known_load`: the same of a
  file that was decoded before, with threads and look-up.
- `tensors`: what is sent to Triton.
- `preprocessing`: that model without Triton, from pixels to what the gateway's ensemble passes to
  the encoder; `copied`: what the encoder's model keeps of it; `key`: its name in the encoder's
  cache of features; `normalised`: what the tower reads of it, of an image that is not in the cache
  and is encoded on the processor (0 where preprocessing has done that).

Milliseconds; processor time of the calling thread, but of these two, which is time that passes.
"""

import argparse
import asyncio
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from inspect import isawaitable, signature
from pathlib import Path
from typing import Any

import numpy as np
from checkouts import ROOT, checked_out, environment
from own_cost import photograph
from PIL import Image

from mm_edge.body import UploadLimits, read_body
from mm_edge.body_budget import BodyBudget
from mm_runtime.backends.triton_server.inputs import build_inputs
from mm_runtime.base.heap import return_large_pieces
from mm_runtime.gateway.api.parsing import parse_chat
from mm_runtime.gateway.backends.engine import EngineRequest, Sampling
from mm_runtime.gateway.media.decoding.jobs import image_job
from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import DecoderLimits, DecoderProcess
from mm_runtime.gateway.media.image_cache import DecodedImageCache
from mm_runtime.gateway.media.images import ImageLoader, ImageReference
from mm_runtime.images.data_urls import decode_data_url
from mm_runtime.images.fetch import FetchPolicy, ImageFetcher
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.vision.cache import digest
from mm_runtime.serving.preprocess.media import MediaLimits
from mm_runtime.serving.preprocess.preprocessing import Preprocessor
from support.gateways import toy_manifest, toy_serving, write_processor
from support.images import data_url

RESULTS = Path(__file__).parent / "results" / "image_path.json"
SIDE, PATCH, QUALITY = 336, 14, 90
FEATURES = (SIDE // PATCH) ** 2
MOST_PIXELS = 50_000_000
LIMITS = DecoderLimits(memory_bytes=1 << 30, wall_seconds=60)
PASSING = ("decoder", "known_load")
"""Steps whose time passes in other threads and processes, too."""

CHUNK_BYTES = 256 * 1024
"""Read from a socket at a time at the most (asyncio)."""

CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
Medians = dict[str, dict[str, float]]
"""Milliseconds of each step for each image."""

TURNS, ROUNDS = 20, 3
CHILD_SECONDS = 300


def small_image() -> bytes:
    """Return a JPEG of the tower's size, of cells of one color."""
    cells = np.random.default_rng(1).integers(0, 255, (SIDE // PATCH,) * 2 + (3,), dtype=np.uint8)
    file = io.BytesIO()
    pixels = cells.repeat(PATCH, axis=0).repeat(PATCH, axis=1)
    Image.fromarray(pixels).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def preprocessor(folder: Path) -> Preprocessor:
    """Return the preprocessing of a LLaVA with a tower of CLIP's size, its files in a folder."""
    write_processor(folder)
    config = folder / "processor" / "preprocessor_config.json"
    size = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
    config.write_text(json.dumps(size | CLIP))
    plan = toy_manifest().plan
    assert plan.facts.vision is not None
    vision = plan.facts.vision.model_copy(
        update={"image_size": SIDE, "features_per_image": FEATURES}
    )
    limits = plan.engine.limits.model_copy(update={"max_input_len": 1024, "max_seq_len": 1100})
    plan = plan.model_copy(
        update={
            "facts": plan.facts.model_copy(update={"vision": vision}),
            "engine": plan.engine.model_copy(update={"limits": limits}),
        }
    )
    manifest = toy_manifest().model_copy(update={"plan": plan})
    return Preprocessor.load(EngineDirectory(folder, manifest), toy_serving())


async def received(body: bytes) -> bytes:
    """Return a body that arrives in chunks."""
    chunks = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    with BodyBudget(1 << 30).claim() as claim:
        return await read_body(receive, {}, claim, limit=1 << 28, upload=UploadLimits(60))


def loader(decoders: Decoders) -> ImageLoader:
    """Return a gateway's loader of images, which keeps what it has decoded."""
    policy = FetchPolicy(
        allowed_hosts=(), allow_private_networks=False, timeout_seconds=1, max_bytes=1
    )
    return ImageLoader(
        fetcher=ImageFetcher(policy),
        limits=MediaLimits(max_bytes=1 << 28, max_pixels=MOST_PIXELS),
        decoders=decoders,
        known=DecodedImageCache(1 << 26),
        bodies=BodyBudget(1 << 30),
        reads_times=False,
    )


def steps(
    content: bytes, folder: Path, decoder: DecoderProcess, images: ImageLoader
) -> dict[str, Callable[[], Any]]:
    """Return what is done to an image, in order."""
    prepared = preprocessor(folder)
    processor = prepared.image_processor
    assert processor is not None
    url = data_url(content, "image/jpeg")
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what"}]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": parts}]}).encode()
    job = image_job(processor.reduced, 1, MOST_PIXELS)
    loop = asyncio.new_event_loop()
    pixels = awaited(loop, decoder.run(job, content, 60)).array
    request = EngineRequest(
        prompt="<image> what",
        images=(pixels,),
        max_tokens=1,
        sampling=Sampling(0.0, 1.0, 0, presence_penalty=0.0, frequency_penalty=0.0),
        request_id="1",
    )
    inputs = {
        "QUERY": np.array([[b"<image> what"]], dtype=np.object_),
        "REQUEST_OUTPUT_LEN": np.array([[1]], dtype=np.int32),
        "IMAGE_BYTES": pixels[np.newaxis, np.newaxis],
    }
    for_encoder = as_passed(prepared, inputs)
    (passed,) = (one for name, one in for_encoder.items() if name.startswith("PIXEL_"))
    sent = [ImageReference(url, "messages[0]")]
    loop.run_until_complete(images.load(sent, [processor]))
    return {
        "receive": lambda: loop.run_until_complete(received(body)),
        "parse": lambda: parse_chat(body, "application/json"),
        "base64": lambda: decode_data_url(url, max_bytes=1 << 28),
        "known": looked_up(content, pixels),
        "decoder": lambda: awaited(loop, decoder.run(job, content, 60)),
        "known_load": lambda: loop.run_until_complete(images.load(sent, [processor])),
        "tensors": lambda: build_inputs(request, newer_names=False),
        "preprocessing": lambda: as_passed(prepared, inputs),
        "copied": passed.copy,
        "key": lambda: digest({"pixel_values": passed[0, 0]}),
        "normalised": lambda: normalised(prepared, passed[0]),
    }


def awaited(loop: asyncio.AbstractEventLoop, found: Any) -> Any:
    """Return what is awaited; older commits have waited for it already."""
    return loop.run_until_complete(found) if isawaitable(found) else found


def looked_up(content: bytes, pixels: Any) -> Callable[[], Any]:
    """Return the look-up of a file that is known; older commits have one call for all of it."""
    known: Any = DecodedImageCache(1 << 26)
    if hasattr(known, "through"):
        return lambda: known.through(content, 1, lambda: pixels)
    known.keep(known.key(content, 1), pixels)
    return lambda: known.find(known.key(content, 1))


def as_passed(prepared: Preprocessor, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the outputs that the gateway's ensemble requests; older commits have one way alone."""
    if "requested" in signature(prepared.prepare).parameters:
        return prepared.prepare(inputs, requested={"PIXEL_BYTES"})
    return prepared.prepare(inputs)


def normalised(prepared: Preprocessor, passed: Any) -> Any:
    """Return what a tower on the processor reads of images."""
    if passed.dtype != np.uint8:
        return passed
    from mm_runtime.serving.encode.vision.pixel_bytes import normalisation_of  # noqa: PLC0415

    normalisation = normalisation_of(prepared.engine)
    assert normalisation is not None
    return normalisation.of_images(passed)


def measured() -> Medians:
    """Measure the code that this process has imported."""
    return_large_pieces()  # as a gateway does
    found: Medians = {}
    decoder, decoders = DecoderProcess(LIMITS), Decoders(1, LIMITS)
    for name, content in {"jpeg_336": small_image(), "jpeg_1_mb": photograph()}.items():
        with tempfile.TemporaryDirectory() as folder:
            taken: dict[str, list[float]] = {}
            for step, call in steps(content, Path(folder), decoder, loader(decoders)).items():
                clock = time.perf_counter if step in PASSING else time.thread_time
                call()
                for _ in range(TURNS):
                    begun = clock()
                    call()
                    taken.setdefault(step, []).append(clock() - begun)
        found[name] = {step: statistics.median(one) * 1000 for step, one in taken.items()}
    decoder.end()
    decoders.close()
    return found


def of_checkout(checkout: Path) -> Medians:
    """Measure the code of a checkout in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child"],
        env=environment(checkout),
        capture_output=True,
        text=True,
        timeout=CHILD_SECONDS,
        check=True,
    )
    found: Medians = json.loads(done.stdout)
    return found


def summed_up(rounds: list[Medians]) -> Medians:
    """Return the median of each step's rounds."""
    return {
        image: {
            step: round(statistics.median(one[image][step] for one in rounds), 3)
            for step in rounds[0][image]
        }
        for image in rounds[0]
    }


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", help="another commit, measured in turn")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured()))
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        checkouts = {"ms": ROOT}
        if options.against:
            checkouts[f"ms_of_{options.against}"] = checked_out(options.against, Path(folder))
        rounds: dict[str, list[Medians]] = {name: [] for name in checkouts}
        for _ in range(ROUNDS):
            for name, checkout in checkouts.items():
                rounds[name].append(of_checkout(checkout))
    document = {
        "command": " ".join(["bench/gateway/image_path.py", *sys.argv[1:]]),
        "machine": {
            "cores": os.cpu_count(),
            "load_before": round(load, 1),
            "python": platform.python_version(),
        },
        "rounds": ROUNDS,
        "turns": TURNS,
        **{name: summed_up(one) for name, one in rounds.items()},
    }
    text = json.dumps(document, indent=1)
    RESULTS.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
