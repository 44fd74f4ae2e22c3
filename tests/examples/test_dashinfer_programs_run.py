"""Programs as users of DashInfer-VLM write them run against a real gateway and print answers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.families.expected import noise_image
from support.families.served import Family, Servers
from support.images import encode
from support.videos import video

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

PROGRAMS = Path(__file__).parents[2] / "examples" / "dashinfer"


@pytest.fixture
def served(servers: Servers) -> Family:
    return servers.of("qwen2-vl")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two images, and a video of two seconds."""
    folder = tmp_path_factory.mktemp("files")
    for number in range(2):
        (folder / f"{number}.png").write_bytes(encode(noise_image(60, 50, seed=number)))
    (folder / "video.mp4").write_bytes(video(50))
    return folder


def run(served: Family, program: str, *arguments: Path) -> list[str]:
    """Return the lines that a program prints."""
    command = [sys.executable, PROGRAMS / program, served.pair.url, "model", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_two_images(served: Family, files: Path) -> None:
    """Streamed; `delta.content` is a text in every chunk."""
    assert "".join(run(served, "two_images.py", files / "0.png", files / "1.png")).strip()


def test_a_video(served: Family, files: Path) -> None:
    """`fps` of a video file: two seconds at two frames a second are as many as the plan has."""
    *_, tokens = run(served, "video.py", files / "video.mp4")
    found = re.fullmatch(r"(\d+) prompt tokens", tokens)
    assert found is not None
    assert int(found[1]) > 20


@pytest.mark.slow
def test_a_hundred_requests(served: Family, files: Path) -> None:
    """Ten workers; the table has one row, of all requests."""
    *_, row = run(served, "hundred_requests.py", files / "0.png", files / "1.png")
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:2] == ["100", "10"]
    assert all(re.fullmatch(r"[\d.]+( ms)?", cell) for cell in cells)
