"""What the builder itself costs, beside the tools that it runs.

    python bench/build/step_overhead.py > bench/build/results/step_overhead.json

From builds of T5 with the recorded tools: seconds a step that belong to no step (journal, digests,
manifest, waiting), by the clock of the builder itself from the plan to the manifest and of the
processor, interpreter and imports left out; seconds by which a tool under the builder takes longer
than the same command line by itself (both measured in turn, in one run); what a step of our own
costs that only copies three small files (an interpreter and its imports); and the builder's own
peak memory. On a busy machine the processor's seconds are the ones to believe.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.trtllm_sites import TrtllmSite, trtllm_site  # noqa: E402 (found through the line above)
from support.trtllm_tools.install import install  # noqa: E402

ROUNDS = 7
DEADLINE_SECONDS = 120
POLL_SECONDS = 0.01


def main() -> None:
    """Build, measure, print JSON."""
    between, busy, tools, small, memory = [], [], [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        programs = install(Path(scratch) / "tools", "0.20.0")
        for number in range(ROUNDS):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            site = trtllm_site(folder, programs, "t5")
            seconds, witness = build(site)
            imports = start_up()
            manifest = json.loads(site.paths.manifest.read_bytes())
            steps = {step["name"]: step["seconds"] for step in manifest["steps"]}
            between.append((seconds - sum(steps.values())) / len(steps))
            busy.append((witness.cpu_seconds - imports) / len(steps))
            memory.append(witness.peak_bytes)
            small.append(steps["processor"])
            direct = run_directly(site)
            tools += [steps[name] - taken for name, taken in direct.items()]
    print(
        json.dumps(
            {
                "command": "python bench/build/step_overhead.py",
                "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()}",
                "rounds": ROUNDS,
                "seconds_between_steps_median": round(statistics.median(between), 4),
                "cpu_seconds_between_steps_median": round(statistics.median(busy), 4),
                "seconds_of_a_small_step_of_ours_median": round(statistics.median(small), 4),
                "seconds_a_tool_takes_longer_median": round(statistics.median(tools), 4),
                "builder_peak_memory_mb": round(max(memory) / 2**20, 1),
            },
            indent=1,
        )
    )


@dataclass
class Witness:
    """What /proc says of one process, its children left out."""

    peak_bytes: int = 0
    cpu_seconds: float = 0.0


BUILDER = """
import sys, time
from mm_runtime.engine_build import run
build = run.build
def timed(*arguments):
    began = time.perf_counter()
    try:
        return build(*arguments)
    finally:
        print("seconds", time.perf_counter() - began)
run.build = timed
from mm_runtime.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""`mm-runtime`, with a clock around the build."""


def build(site: TrtllmSite) -> tuple[float, Witness]:
    """Run one build in a process of its own; return its seconds and what it took itself."""
    command = [sys.executable, "-c", BUILDER, *site.arguments]
    with subprocess.Popen(
        command, env=site.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as builder:
        witness = Witness()
        watcher = threading.Thread(target=watch, args=(builder, witness))
        watcher.start()
        printed, _ = builder.communicate(timeout=DEADLINE_SECONDS)
        watcher.join()
    assert builder.returncode == 0, f"the build ended with {builder.returncode}"
    (reported,) = [line for line in printed.splitlines() if line.startswith("seconds ")]
    return float(reported.split()[1]), witness


def watch(builder: "subprocess.Popen[bytes]", witness: Witness) -> None:
    """Keep the last readings: wait4 would count the descendants as well."""
    while builder.poll() is None:
        try:
            status = Path(f"/proc/{builder.pid}/status").read_text(encoding="ascii")
            times = Path(f"/proc/{builder.pid}/stat").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            return
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                witness.peak_bytes = max(witness.peak_bytes, int(line.split()[1]) * 1024)
        user, system = times.rpartition(")")[2].split()[11:13]
        witness.cpu_seconds = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        time.sleep(POLL_SECONDS)


def start_up() -> float:
    """Return the processor's seconds that the interpreter and its imports take once."""
    imports = "import mm_runtime.cli, mm_runtime.engine_build.run"
    before = os.times()
    subprocess.run([sys.executable, "-c", imports], check=True, timeout=DEADLINE_SECONDS)
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


def run_directly(site: TrtllmSite) -> dict[str, float]:
    """Run the same command lines by themselves; return step -> seconds."""
    build = site.plan.trtllm
    assert build is not None
    folder = site.store / "direct"
    folder.mkdir()
    for entry in site.tools.root.iterdir():
        (folder / entry.name).symlink_to(entry)
    (folder / "checkpoint").symlink_to(site.source)
    commands: dict[str, Any] = {"convert": build.convert}
    commands |= {f"build-{engine.name}": engine for engine in build.engines}
    taken = {}
    for name, command in commands.items():
        began = time.perf_counter()
        subprocess.run(
            command.argv,
            cwd=folder,
            env=site.environment,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=DEADLINE_SECONDS,
        )
        taken[name] = time.perf_counter() - began
    return taken


if __name__ == "__main__":
    main()
