"""Write docs/images: first screens of dashboards and of `mmctl ui`, of the model of `make demo`.

Prometheus is real, scrapes the demo's pods as that of a user does, and sees minutes of load. There
is no Grafana: a page of tools/panels.py draws the dashboards of the chart, and Chromium takes the
screenshots.
"""

import asyncio
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))  # the browser, and the scraping of a cluster's pods

from mm_api.hosts import bracketed  # noqa: E402
from mm_devcluster.cluster import ClusterInfo, ClusterOptions, up  # noqa: E402
from mm_devcluster.demo import settings  # noqa: E402
from mm_devcluster.demo.monitoring import PORT  # noqa: E402
from mm_devcluster.demo.target import Target  # noqa: E402
from panels import page  # noqa: E402
from support.browser import tab_of  # noqa: E402
from support.pod_targets import machine_address, scrape_config, write_targets  # noqa: E402
from support.prometheus import Prometheus, running_prometheus  # noqa: E402
from support.queries import RULES  # noqa: E402

IMAGES = ROOT / "docs" / "images"
BIN = Path(sys.executable).parent
LOAD_SECONDS = 150
MOST_BYTES = 150_000
BOARDS = ("model", "fleet")
WHERE = ("multimodalmodel", settings.MODEL, "--namespace", settings.DEMO_NAMESPACE)
OBJECTIVES = (("TimeToFirstToken", "1s"), ("InterTokenLatency", "100ms"), ("RequestLatency", "3s"))


def main() -> int:
    """Load the demo's model, and take the screenshots."""
    cluster = up(ClusterOptions(name=settings.Options.cluster))
    target = Target(cluster.name, cluster.kubeconfig, cluster.kubectl)
    with tempfile.TemporaryDirectory(prefix="mm-screenshots-") as folder:
        place = Path(folder)
        with watched(cluster, place) as prometheus:
            objectives(target)
            load(target)
            boards = {name: page(f"multimodal-{name}", prometheus.api) for name in BOARDS}
        for name, text in boards.items():
            (place / f"{name}.html").write_text(text, encoding="utf-8")
            asyncio.run(take(f"file://{place}/{name}.html", place / name, name))
        with ui(target) as address:
            asyncio.run(take(address, place / "ui", "ui"))
    target.call("patch", *WHERE, "--type=merge", "-p", '{"spec": {"autoscaling": null}}')
    return 0


@contextmanager
def watched(cluster: ClusterInfo, place: Path) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes operator and pods every two seconds."""
    targets = place / "targets.json"
    write_targets(cluster, targets)
    config = scrape_config(targets, RULES, "2s")
    address = machine_address(cluster)
    with running_prometheus(place, config, port=PORT, address=address) as prometheus:
        yield prometheus


def objectives(target: Target) -> None:
    """Give the model objectives, which are judged and change nothing."""
    wanted = ", ".join(
        f'{{"metric": "{metric}", "percentile": 95, "target": "{goal}"}}'
        for metric, goal in OBJECTIVES
    )
    spec = f'{{"mode": "Recommend", "maxReplicas": 2, "objectives": [{wanted}]}}'
    target.call("patch", *WHERE, "--type=merge", "-p", f'{{"spec": {{"autoscaling": {spec}}}}}')


def load(target: Target) -> None:
    """Send questions about images, from few users at once and then from more."""
    service = target.document("service", *WHERE[1:])
    address = f"http://{bracketed(service['spec']['clusterIP'])}/v1"
    words = ("--quiet", "--images", "0:1,1:3", "--max-tokens", "16", "--picture-size", "56")
    for users, share in ((1, 0.3), (4, 0.4), (2, 0.3)):
        seconds = f"{LOAD_SECONDS * share:.0f}s"
        given = ("bench", address, "--users", str(users), "--duration", seconds, *words)
        subprocess.run([BIN / "mm-lab", *given], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def ui(target: Target) -> Iterator[str]:
    """Run `mmctl ui`; yield its address."""
    words = [str(BIN / "mmctl"), "ui", "--no-browser", "-n", settings.DEMO_NAMESPACE]
    with subprocess.Popen(
        words, env=target.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it was requested above
        yield process.stdout.readline().strip()
        process.terminate()


async def take(address: str, folder: Path, name: str) -> None:
    """Take screenshots of a page, light and dark; of `mmctl ui` that of its first model."""
    async with tab_of(address, folder) as tab:
        if name == "ui":
            await tab.wait("document.querySelectorAll('tbody a').length == 1")
            await tab.eval("document.querySelector('tbody a').click()")
            await tab.wait("document.querySelectorAll('#live h2').length > 3")
        for scheme in ("light", "dark"):
            await tab.look(1400, scheme)
            high = (
                await tab.eval("document.documentElement.scrollHeight") if name in BOARDS else 900
            )
            clip = {"x": 0, "y": 0, "width": 1400, "height": high, "scale": 1}
            found = await tab.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
            write(b64decode(found["data"]), IMAGES / f"{name}-{scheme}.png")


def write(screenshot: bytes, file: Path) -> None:
    """Write a screenshot in as few colours as a small file has."""
    file.parent.mkdir(exist_ok=True)
    with Image.open(BytesIO(screenshot)) as taken:
        taken.convert("RGB").quantize(64).save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file.relative_to(ROOT)}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"{file} is above {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
