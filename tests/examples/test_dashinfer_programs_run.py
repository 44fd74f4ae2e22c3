"""A program as users of DashInfer-VLM write it runs against a real gateway and prints an answer."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.families.expected import noise_image
from support.families.served import Servers
from support.images import encode

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parents[2] / "examples" / "dashinfer" / "two_images.py"


def test_two_images(servers: Servers, tmp_path: Path) -> None:
    """Streamed; `delta.content` is a text in every chunk."""
    files = [tmp_path / f"{number}.png" for number in range(2)]
    for number, file in enumerate(files):
        file.write_bytes(encode(noise_image(60, 50, seed=number)))
    command = [sys.executable, PROGRAM, servers.of("qwen2-vl").pair.url, "model", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
