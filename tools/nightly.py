"""Run the suites that `make test` leaves out, and record when each ran last.

python tools/nightly.py              all, one after the other
python tools/nightly.py twin mutants these

Writes docs/design/nightly.json after each suite; `tools/generate_nightly_page.py` makes its page.
Exits 1 when a suite failed. Exit code 77 of a suite, and a run in which every test was skipped,
mean that this machine lacks what the suite needs: nothing is recorded then.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
RECORD: Final = Path("docs/design/nightly.json")
PYTEST: Final = ".venv/bin/pytest"
SUITES: Final = {
    "faults": f"{PYTEST} -m slow tests/e2e",
    "runtime": f"{PYTEST} -m slow tests/mm_runtime",
    "requests": f"{PYTEST} -m slow tests/native tests/requests tests/openai",
    "rest": f"{PYTEST} -m slow --ignore=tests/e2e --ignore=tests/mm_runtime --ignore=tests/native"
    " --ignore=tests/requests --ignore=tests/openai --ignore=tests/keda --ignore=tests/inference"
    " --ignore=tests/gateway_api --ignore=tests/vllm",
    "examples": f"{PYTEST} --hypothesis-profile=explore"
    " -m 'hypothesis and not slow and not triton and not cluster'",
    "adversarial": "make adversarial-test",
    "generated-requests": "make generated-requests",
    "twin": "make twin twin-test",
    "vllm": "make env-vllm vllm-test",
    "openai": "make openai-test",
    "keda": "make keda-test",
    "inference": "make inference-test",
    "gateway-api": "make gateway-api-test",
    "groups": "make env-vllm groups-test",
    "python-3.12": "make python-test PYTHON=3.12",
    "mutants": "make mutants",
    "gpu": "make gpu-test",
}
"""Name -> command. `gpu` is last: it needs a machine that most do not have."""
SECONDS: Final = 4 * 3600
"""After which a suite is ended. Chosen: not every suite was timed."""
NOT_HERE: Final = 77
_CLOSING: Final = re.compile(
    r"^=+ (.*(?:passed|failed|error|skipped|deselected).*) in .* =+$", re.MULTILINE
)


def closing(output: str, code: int) -> str | None:
    """Return the lines of a suite's output that count its tests, or how the suite ended.

    Args:
        output: what it printed.
        code: its exit code.

    Returns:
        For example `3 failed, 20 passed`; None where nothing was run on this machine.
    """
    counted = _CLOSING.findall(output)
    ran = [line for line in counted if re.search(r"\d+ (passed|failed|error)", line)]
    if code == NOT_HERE or (counted and not ran):
        return None
    result = "; ".join(ran) or "passed"
    named = code == 0 or re.search("failed|error", result)
    return result if named else f"failed (exit code {code})"


def _run(command: str) -> tuple[str, int]:
    """Return output and exit code of a command, whose processes end with it."""
    process = subprocess.Popen(
        shlex.split(command),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"{process.communicate()[0]}\nended after {SECONDS} s", 124
    return output, process.returncode


def main(names: list[str]) -> int:
    """Run and record; return the exit code."""
    if unknown := [name for name in names if name not in SUITES]:
        print(f"no suite is named {unknown[0]}; expected: {', '.join(SUITES)}", file=sys.stderr)
        return 2
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    failed = False
    for name in names or SUITES:
        print(f"== {name}: {SUITES[name]}", flush=True)
        output, code = _run(SUITES[name])
        result = closing(output, code)
        if result is None:
            print(f"== {name}: not run, this machine lacks what it needs", flush=True)
            continue
        failed |= code != 0
        print(output[-20_000:] if code else "", f"== {name}: {result}", sep="\n", flush=True)
        path = ROOT / RECORD
        record = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        today = datetime.now(UTC).date().isoformat()
        record[name] = {"date": today, "commit": commit, "result": result}
        path.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
