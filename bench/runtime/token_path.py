"""How many tokens a second does the path from the engine to the client carry, and who works for it?

Real tritonserver, real gateway, 32 streams of text; the language model computes nothing
(bench/runtime/nothing), so tokens come as fast as the path takes them. Counted by `usage`, which
counts tokens however many share an event. Also the same with an earlier version of `runtime` and
`crds` (`--before`, a commit), in turns in one run: the machine's own speed falls out of the ratio.
The clients are processes of the same machine and take their share of its cores.

    .venv/bin/python bench/runtime/token_path.py --before 4920b6eb --rounds 3

writes bench/runtime/results/token_path.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from processes import below, cpu_seconds
from record import RESULTS, write

ROOT = Path(__file__).resolve().parents[2]
NOTHING = ROOT / "bench" / "runtime" / "nothing"
sys.path.append(str(ROOT / "tests"))

from mm_api.documents.engine_manifest import EngineManifest  # noqa: E402 - ruff sorts it last
from mm_api.documents.evaluation import EVALUATION_NAME  # noqa: E402
from support.build_plans import change_serving  # noqa: E402 - tests are no package
from support.real_gateway import RealGateway, run_pair  # noqa: E402
from support.tiny_llava import build_engine  # noqa: E402

TOKENS = 480
"""Of an answer; those of a conversation's are fewer, and the costs of a request are not the
question."""

CLIENT_PROCESSES = 4
ANSWER_SECONDS = 120


@dataclass
class Seen:
    """What the clients of one process saw."""

    tokens: int = 0
    events: int = 0
    firsts: list[float] = field(default_factory=list)
    """Milliseconds to the first event with text."""

    gaps: list[float] = field(default_factory=list)
    """Milliseconds between two reads of text."""


def query(client: HTTPConnection, body: str, seen: Seen) -> None:
    """Read one streamed answer, as bytes: objects would cost as much as the gateway."""
    began = time.perf_counter()
    client.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    response = client.getresponse()
    assert response.status == HTTPStatus.OK, response.read()
    moments, tail = [], b""
    while part := response.read1():
        events = part.count(b'"delta":{"content"')
        seen.events += events
        if events:
            moments.append(time.perf_counter())
        tail = (tail + part)[-2000:]
    usage = json.loads(tail[tail.rindex(b'{"id"') : tail.rindex(b"data: [DONE]")])["usage"]
    seen.tokens += usage["completion_tokens"]
    seen.firsts.append((moments[0] - began) * 1e3)
    seen.gaps += [(later - sooner) * 1e3 for sooner, later in pairwise(moments)]


def clients(host: str, body: str, streams: int, answers: int) -> Seen:
    """Read so many streams at a time, so many answers each, in this process."""
    seen = [Seen() for _ in range(streams)]

    def work(mine: Seen) -> None:
        client = HTTPConnection(host, timeout=ANSWER_SECONDS)
        for _ in range(answers):
            query(client, body, mine)
        client.close()

    threads = [threading.Thread(target=work, args=(one,)) for one in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_SECONDS * answers)
    return Seen(
        sum(one.tokens for one in seen),
        sum(one.events for one in seen),
        [first for one in seen for first in one.firsts],
        [gap for one in seen for gap in one.gaps],
    )


def percentile(values: list[float], share: float) -> float:
    """Return a value that so many others do not exceed."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)


def measure(pair: RealGateway, streams: int, answers: int) -> dict[str, Any]:
    """Return tokens a second, and processor time a token by process."""
    body = json.dumps(
        {
            "model": pair.model,
            "messages": [{"role": "user", "content": "Hello!"}],
            "max_tokens": TOKENS,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
    host = pair.url.removeprefix("http://")
    processes = below(pair.server.pid) + below(pair.gateway.pid)
    each = streams // min(CLIENT_PROCESSES, streams)
    work = partial(clients, host, body, each)
    with ProcessPoolExecutor(streams // each, mp_context=get_context("spawn")) as pool:
        list(pool.map(work, [1] * (streams // each)))
        spent = {one.pid: cpu_seconds(one.pid) for one in processes}
        began = time.perf_counter()
        seen = list(pool.map(work, [answers] * (streams // each)))
        seconds = time.perf_counter() - began
        spent = {one.pid: cpu_seconds(one.pid) - spent[one.pid] for one in processes}
    tokens = sum(one.tokens for one in seen)
    expected = streams * answers * TOKENS
    assert tokens == expected, f"{tokens} tokens of {expected}"
    firsts = [first for one in seen for first in one.firsts]
    gaps = [gap for one in seen for gap in one.gaps]
    by_process: dict[str, float] = {}
    for one in processes:
        by_process[one.name] = by_process.get(one.name, 0.0) + spent[one.pid]
    return {
        "tokens_per_second": round(tokens / seconds),
        "tokens_of_an_event": round(tokens / sum(one.events for one in seen), 2),
        "first_text_ms_p50": percentile(firsts, 0.5),
        "gap_ms_p50": percentile(gaps, 0.5),
        "gap_ms_p95": percentile(gaps, 0.95),
        "cpu_ms_a_token": round(sum(spent.values()) / tokens * 1e3, 4),
        "cpu_ms_a_token_by_process": {
            name: round(value / tokens * 1e3, 4) for name, value in by_process.items() if value
        },
    }


def extract(commit: str, folder: Path) -> None:
    """Put an earlier version of what a pod runs into a folder."""
    folder.mkdir()
    packed = folder / "packed.tar"
    command = ["git", "archive", f"--output={packed}", commit, "runtime", "crds"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    subprocess.run(["tar", "-xf", packed, "-C", folder], check=True, timeout=60)


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Give variables to processes that are started in the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the round in the middle, by tokens a second."""
    ordered = sorted(rounds, key=lambda one: one["tokens_per_second"])
    return ordered[len(ordered) // 2] | {
        "tokens_per_second_of_rounds": [one["tokens_per_second"] for one in rounds]
    }


def compare(options: argparse.Namespace, folder: Path) -> Mapping[str, Any]:
    """Serve each version, let them take turns, return what each did and the ratios."""
    batch = options.streams
    limits = {"max_batch_size": batch, "max_multimodal_len": batch * 32, "max_seq_len": 1024}
    built = build_engine(folder, **limits)
    manifest = EngineManifest.from_json(built.manifest.read_bytes())
    # The answers that a build keeps are not those of a model that computes nothing.
    files = [one for one in manifest.files if one.path != EVALUATION_NAME]
    unanswered = manifest.model_copy(update={"files": files})
    built.manifest.write_text(unanswered.to_json())
    change_serving(built.serving, gateway={"max_concurrency": batch, "max_queue_size": 4 * batch})
    versions = {"now": [ROOT / "runtime", ROOT / "crds"]}
    if options.before:
        extract(options.before, folder / "before")
        versions = {"before": [folder / "before/runtime", folder / "before/crds"], **versions}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in versions}
    with ExitStack() as stack:
        pairs = {}
        for name, sources in versions.items():
            work = folder / name / "pod"
            work.mkdir(parents=True)
            path = os.pathsep.join(str(one) for one in (NOTHING, *sources))
            with environment(PYTHONPATH=path, MM_STEP_MS=str(options.step_ms)):
                pairs[name] = stack.enter_context(run_pair(built, work))
        for _ in range(options.rounds):
            for name, pair in pairs.items():
                found[name].append(measure(pair, options.streams, options.answers))
                print(name, found[name][-1], flush=True)
    result: dict[str, Any] = {name: summary(rounds) for name, rounds in found.items()}
    if options.before:
        ratios = [
            now["tokens_per_second"] / before["tokens_per_second"]
            for now, before in zip(found["now"], found["before"], strict=True)
        ]
        result["ratio"] = round(statistics.median(ratios), 2)
        result["ratios_of_rounds"] = [round(one, 2) for one in ratios]
        result["before"]["commit"] = options.before
    return result


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--before", default="", help="a commit to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--answers", type=int, default=3, help="of each stream and round")
    parser.add_argument("--step-ms", type=float, default=0, help="what a step waits")
    parser.add_argument("--out", type=Path, default=RESULTS / "token_path.json")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        result = compare(options, Path(name))
    command = f"bench/runtime/token_path.py --before {options.before} --rounds {options.rounds}"
    command += f" --streams {options.streams} --answers {options.answers}"
    command += f" --step-ms {options.step_ms:g}"
    write(options.out, command, load, {"tokens_of_an_answer": TOKENS, **result})


if __name__ == "__main__":
    main()
