"""What traces cost the gateway: processor time of a plain request, off and on.

    .venv/bin/python bench/gateway/tracing.py

An engine that costs nothing answers 20 tokens in the gateway's process; a receiver in this one
takes the spans. Off and on take turns. Writes bench/gateway/results/tracing.json.
"""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import httpx
from checkouts import ROOT
from own_cost import exact_ms, gateway

sys.path.append(str(ROOT / "tests"))

from support.otlp_receiver import otlp_receiver

RESULTS = Path(__file__).parent / "results" / "tracing.json"
ROUNDS, REQUESTS, FIRST = 5, 400, 50
BODY = {"model": "toy", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 20}


def milliseconds(**environment: str) -> float:
    """Return the gateway's processor time for one request, exporter included."""
    os.environ.update(environment)
    try:
        with tempfile.TemporaryDirectory() as folder, gateway(Path(folder)) as (process, port):
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            with httpx.Client(timeout=60) as client:
                for number in range(FIRST + REQUESTS):
                    if number == FIRST:
                        before = exact_ms(process)
                    client.post(url, json=BODY).raise_for_status()
            return (exact_ms(process) - before) / REQUESTS
    finally:
        for name in environment:
            del os.environ[name]


def main() -> None:
    """Measure, print and write."""
    measured: dict[str, list[float]] = {"off": [], "on": [], "a tenth": []}
    with otlp_receiver() as receiver:
        on = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        ratio = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}
        for _ in range(ROUNDS):
            measured["off"].append(milliseconds())
            measured["on"].append(milliseconds(**on))
            measured["a tenth"].append(milliseconds(**on, **ratio))
        assert receiver.spans
    found = {name: round(statistics.median(values), 3) for name, values in measured.items()}
    print(found)
    RESULTS.write_text(json.dumps({"milliseconds a request": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
