"""`mmctl cost` says what a real Prometheus has stored for two hours."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ports import free_ports
from support.prometheus import Prometheus, promtool, running_prometheus

MINUTES = 120
TINY = 'namespace="demo",model="tiny"'
GAUGES = {
    f'mm_model_gpus{{{TINY},gpu="NVIDIA-L4"}}': 2.0,
    'mm_model_gpus{namespace="demo",model="large",gpu="NVIDIA-H200"}': 1.0,
    'mm_gpu_hour_price{gpu="NVIDIA-L4"}': 0.5,
}
PER_MINUTE = {
    f'mm_requests_total{{{TINY},code="200"}}': 10.0,
    f'mm_requests_total{{{TINY},code="503"}}': 5.0,
    f"mm_output_tokens_total{{{TINY}}}": 100.0,
}


@pytest.fixture(name="prometheus", scope="module")
def prometheus_with_two_hours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    now = int(time.time())
    lines = []
    for series, number in (GAUGES | PER_MINUTE).items():
        name, kind = series.partition("{")[0], "gauge" if series in GAUGES else "counter"
        if f"# TYPE {name.removesuffix('_total')} {kind}" not in lines:
            lines.append(f"# TYPE {name.removesuffix('_total')} {kind}")
        for minute in range(MINUTES + 1):
            value = number if kind == "gauge" else number * minute
            lines.append(f"{series} {value} {now - 60 * (MINUTES - minute)}")
    (folder / "past.txt").write_text("\n".join([*lines, "# EOF\n"]))
    files = (str(folder / "past.txt"), str(folder / "data"))
    made = promtool("tsdb", "create-blocks-from", "openmetrics", *files)
    assert made.returncode == 0, made.stderr
    with running_prometheus(folder, {}, port=free_ports(1)[0]) as server:
        yield server


def mmctl(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "mmctl"), "cost", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_costs_of_two_hours(prometheus: Prometheus) -> None:
    """Two GPUs at 0.50 an hour; what has no price has no row."""
    done = mmctl("--prometheus", prometheus.address, "--window", "3h", "-o", "json")
    found = json.loads(done.stdout)

    assert list(found) == ["demo/tiny"]
    assert found["demo/tiny"]["cost"] == pytest.approx(2.0, rel=0.02)
    assert found["demo/tiny"]["requests"] == pytest.approx(1200, rel=0.02)
    text = mmctl("--prometheus", prometheus.address, "-n", "demo").stdout
    assert "NVIDIA-H200 has no price: set the chart's observability.gpuHourPrices" in text
    assert mmctl("--prometheus", prometheus.address, "-n", "other").stdout.count("\n") == 1


def test_an_address_where_nothing_answers() -> None:
    done = mmctl("--prometheus", f"http://127.0.0.1:{free_ports(1)[0]}")

    assert (done.returncode, done.stdout) == (1, "")
    assert "mmctl: Prometheus at http://127.0.0.1" in done.stderr
