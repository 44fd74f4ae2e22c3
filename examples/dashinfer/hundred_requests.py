"""A hundred requests by ten workers: python hundred_requests.py ADDRESS MODEL IMAGE..."""

import base64
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from openai import OpenAI

REQUESTS, WORKERS = 100, 10


def timed(client: OpenAI, model: str, path: str) -> tuple[float, float, int]:
    """Return seconds to the first text, seconds to the last, and tokens."""
    encoded = base64.b64encode(Path(path).read_bytes()).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}}
    begin, first, tokens = time.perf_counter(), 0.0, 0
    response = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": [{"type": "text", "text": "what is it ?"}, image]}],
        max_completion_tokens=16,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in response:
        first = first or time.perf_counter() - begin
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
    return first, time.perf_counter() - begin, tokens


def main(address: str, model: str, *images: str) -> None:
    """Print requests a second and the times of one."""
    client = OpenAI(base_url=f"{address}/v1", api_key="EMPTY", max_retries=5)
    begin = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as workers:
        paths = [images[number % len(images)] for number in range(REQUESTS)]
        found = list(workers.map(lambda path: timed(client, model, path), paths))
    seconds = time.perf_counter() - begin
    firsts, lasts = (sorted(one[at] for one in found) for at in (0, 1))
    print(
        "| requests | workers | requests/s | tokens/s | first text p50 | p99 | answer p50 | p99 |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    rates = (len(found) / seconds, sum(one[2] for one in found) / seconds)
    times = (firsts[49], firsts[98], lasts[49], lasts[98])
    cells = [str(REQUESTS), str(WORKERS), *(f"{rate:.1f}" for rate in rates)]
    print(f"| {' | '.join([*cells, *(f'{one * 1000:.0f} ms' for one in times)])} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
