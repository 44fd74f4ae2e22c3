"""What later turns of a chat about an image cost: time to first token against that of the first.

Each chat begins with an image that no other one has and with some instructions, and grows by a
short question and its answer. `tiny` is the model of the demo, whose prompts cost next to nothing;
`middle` is `middle_llava`, whose chats are long enough that reading them is most of the time. Each
is served with `kvCache.reuse` and a feature cache, with either, and with none; a ratio is of one
run, in which the turns of all chats take turns.

    .venv/bin/python bench/runtime/chat_turns.py --chats 8

writes bench/runtime/results/chat_turns.json.
"""

import argparse
import base64
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image
from record import RESULTS, write

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

from support.build_plans import change_serving  # noqa: E402 - tests are no package
from support.middle_llava import FEATURES, POSITIONS, write_middle_llava  # noqa: E402
from support.real_gateway import RealGateway, run_pair  # noqa: E402
from support.tiny_llava import CHECKPOINT, BuiltEngine, build_engine  # noqa: E402

TURNS = 5
BATCH = 4
SIDE = 224
CACHE_BYTES = 64 << 20
WORDS = {"tiny": 40, "middle": 700}
"""Of the instructions in front of the first question."""

VARIANTS: dict[str, dict[str, Any]] = {
    "reuse_and_features": {"reuse_bytes": 512 << 20, "feature_cache_bytes": CACHE_BYTES},
    "reuse": {"reuse_bytes": 512 << 20, "feature_cache_bytes": 0},
    "features": {"reuse_bytes": None, "feature_cache_bytes": CACHE_BYTES},
    "neither": {"reuse_bytes": None, "feature_cache_bytes": 0},
}


def image(number: int) -> str:
    """Return coarse noise as a data URL; no two numbers give the same."""
    cells = np.random.default_rng(number).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(cells).resize((SIDE, SIDE)).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def turn(client: httpx.Client, model: str, messages: list[Any]) -> tuple[float, str]:
    """Send a chat; return the time to the first piece of text, and the answer."""
    body = {
        "model": model,
        "messages": messages,
        "max_tokens": 6,
        "temperature": 0,
        "stream": True,
    }
    begin, found, said = time.perf_counter(), None, ""
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != httpx.codes.OK:
            raise ValueError(response.read().decode())
        for line in response.iter_lines():
            if '"delta":{"content"' in line:
                found = found or time.perf_counter() - begin
                said += line.split('"content":"', 1)[1].split('"', 1)[0]
    if found is None:
        raise ValueError("the stream had no text")
    return found, said


def measure(pair: RealGateway, chats: int, words: int, first_image: int) -> dict[str, Any]:
    """Hold some chats; return medians of their turns in milliseconds."""
    times: list[list[float]] = [[] for _ in range(TURNS)]
    text = " ".join(["what is in the image ?"] * (words // 5))
    with httpx.Client(base_url=pair.url, timeout=300) as client:
        for number in range(chats + 1):
            url = {"type": "image_url", "image_url": {"url": image(first_image + number)}}
            messages: list[Any] = [
                {"role": "user", "content": [url, {"type": "text", "text": text}]}
            ]
            for at in range(TURNS):
                seconds, said = turn(client, pair.model, messages)
                if number:  # the first chat warms up
                    times[at].append(seconds)
                messages += [
                    {"role": "assistant", "content": said},
                    {"role": "user", "content": "what is in the image ?"},
                ]
    medians = [statistics.median(one) * 1e3 for one in times]
    later = statistics.median([one for turns in times[1:] for one in turns]) * 1e3
    return {
        "turns_ms": [round(one, 1) for one in medians],
        "first_ms": round(medians[0], 1),
        "later_ms": round(later, 1),
        "ratio": round(later / medians[0], 3),
    }


def tiny(folder: Path) -> BuiltEngine:
    """Return the demo's model with room for chats."""
    return build_engine(
        folder, CHECKPOINT, max_batch_size=BATCH, max_input_len=400, max_seq_len=480
    )


def middle(folder: Path) -> BuiltEngine:
    """Return a model whose prompts cost something."""
    return build_engine(
        folder,
        write_middle_llava(folder / "checkpoint"),
        max_batch_size=BATCH,
        max_input_len=POSITIONS - 32,
        max_seq_len=POSITIONS,
        max_multimodal_len=BATCH * FEATURES,
    )


MODELS: dict[str, Callable[[Path], BuiltEngine]] = {"tiny": tiny, "middle": middle}


def main() -> None:
    """Build the models, hold the chats, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--chats", type=int, default=8)
    chats = parser.parse_args().chats
    before = os.getloadavg()[0]
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for model, build in MODELS.items():
            folder = Path(name) / model
            folder.mkdir()
            built = build(folder)
            found: dict[str, Any] = {"instruction_words": WORDS[model]}
            for at, (variant, changes) in enumerate(VARIANTS.items()):
                run = folder / variant
                run.mkdir()
                serving = run / "plan.json"
                serving.write_bytes(built.serving.read_bytes())
                change_serving(serving, **changes)
                with run_pair(replace(built, serving=serving), run) as pair:
                    found[variant] = measure(pair, chats, WORDS[model], 1000 * at)
            result[model] = found
    command = f"bench/runtime/chat_turns.py --chats {chats}"
    write(RESULTS / "chat_turns.json", command, before, result)


if __name__ == "__main__":
    main()
