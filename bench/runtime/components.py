"""Where each millisecond of an answer goes: the pod's processes and Triton's models, one by one.

One client queries the tiny model through the gateway, with an image and without, one request at a
time. For each request: what the client waited, the CPU time of every process of the pod
(/proc), and what Triton's own statistics say each model waited and computed. What is left of the
client's wait after the ensemble is the gateway's, with HTTP and gRPC. `bench/gateway/overhead.py`
has the same model without Triton beside it.

    .venv/bin/python bench/runtime/components.py --requests 200

writes bench/runtime/results/components.json.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import tritonclient.grpc as triton
from processes import below, cpu_seconds
from record import RESULTS, write

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

from support.images import data_url  # noqa: E402 - tests are no package
from support.real_gateway import RealGateway, run_pair  # noqa: E402
from support.tiny_llava import IMAGES, build_engine  # noqa: E402

WARM_UP = 20
IMAGE = {
    "type": "image_url",
    "image_url": {"url": data_url((IMAGES / "red-square.png").read_bytes())},
}
CASES: dict[str, list[dict[str, Any]]] = {
    "image": [IMAGE, {"type": "text", "text": "What is in the image?"}],
    "text": [{"type": "text", "text": "Hello!"}],
}
PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


def statistics_of(client: triton.InferenceServerClient) -> dict[str, dict[str, int]]:
    """Return nanoseconds and counts of each model since the server started."""
    page = client.get_inference_statistics(as_json=True)
    return {
        model["name"]: {
            key: int(value.get("ns", 0)) for key, value in model["inference_stats"].items()
        }
        | {"runs": int(model["inference_stats"]["success"].get("count", 0))}
        for model in page["model_stats"]
    }


def measure(pair: RealGateway, content: list[dict[str, Any]], requests: int) -> dict[str, Any]:
    """Query one question again and again; return milliseconds a request."""
    processes = below(pair.server.pid) + below(pair.gateway.pid)
    body = {
        "model": pair.model,
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
    }
    server = triton.InferenceServerClient(pair.triton_grpc)
    with httpx.Client(base_url=pair.url, timeout=60) as client:

        def query() -> int:
            answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
            return int(answer["usage"]["completion_tokens"])

        for _ in range(WARM_UP):
            query()
        models, spent = statistics_of(server), {one.pid: cpu_seconds(one.pid) for one in processes}
        begin = time.perf_counter()
        tokens = sum(query() for _ in range(requests))
        waited = time.perf_counter() - begin
    after = statistics_of(server)
    server.close()

    def share(model: str, key: str) -> float:
        return round((after[model][key] - models[model].get(key, 0)) / requests / 1e6, 3)

    ensemble = share("ensemble", "success")
    return {
        "tokens": tokens / requests,
        "client_waited_ms": round(waited / requests * 1e3, 2),
        "ensemble_ms": ensemble,
        "gateway_and_transport_ms": round(waited / requests * 1e3 - ensemble, 2),
        "models": {
            name: {
                "runs": round((after[name]["runs"] - models[name]["runs"]) / requests, 2),
                **{f"{key}_ms": share(name, key) for key in PARTS},
            }
            for name in sorted(after)
            if name != "ensemble"
        },
        "cpu_ms": {
            one.name: round((cpu_seconds(one.pid) - spent[one.pid]) / requests * 1e3, 2)
            for one in processes
        },
    }


def main() -> None:
    """Build the engine, query it, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=200)
    requests = parser.parse_args().requests
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with run_pair(build_engine(folder), folder) as pair:
            result = {case: measure(pair, content, requests) for case, content in CASES.items()}
    command = f"bench/runtime/components.py --requests {requests}"
    write(RESULTS / "components.json", command, before, result)


if __name__ == "__main__":
    main()
