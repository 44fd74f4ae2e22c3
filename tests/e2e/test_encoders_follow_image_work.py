"""On the entire development cluster: images keep encoders busy, and encoders alone are added."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mm_devcluster.demo import monitoring
from mm_devcluster.demo.autoscaling import Follower
from mm_devcluster.demo.load import Client, offered
from support.families.llava import write
from support.installed import Installed, Space, model_space

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

MODEL = "images"
MOST = 3
RATE = 2.0
"""Images a second: more than an encoder with a tenth of a core encodes, and little to answer."""
ENCODER = {"requests": {"cpu": "50m", "memory": "512Mi"}, "limits": {"cpu": "100m"}}
TOWER = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 10}
SIDE = 224
QUICK = {"scaleDown": {"stabilizationWindowSeconds": 20}}
START_SECONDS, UP_SECONDS, DOWN_SECONDS = 900, 900, 1800


def _write(folder: Path) -> None:
    """Write a checkpoint whose tower takes long; its answers are of no interest.

    Weights of wide layers are smaller, or rounding would make export and torch differ.
    """
    import torch  # noqa: PLC0415  (it takes a second)
    from safetensors.torch import load_file, save_file  # noqa: PLC0415

    torch.manual_seed(11)  # others may answer with nothing
    write(folder, side=SIDE, **TOWER)
    file = folder / "model.safetensors"
    weights = {
        name: weight / 6 if "vision" in name and weight.ndim > 1 else weight
        for name, weight in load_file(file).items()
    }
    save_file(weights, file, metadata={"format": "pt"})


def _autoscaled() -> dict[str, Any]:
    """Return what lets both follow their load; the language model may have as many."""
    objective = {"metric": "TimeToFirstToken", "percentile": 95, "target": "2s"}
    return {
        "vision": {"autoscaling": {"maxReplicas": MOST, "behavior": QUICK}},
        "autoscaling": {"maxReplicas": MOST, "objectives": [objective]},
    }


def _until(space: Space, holds: Callable[[dict[str, Any]], bool], seconds: float) -> list[int]:
    """Return the numbers of encoders that were seen, once something holds of the status."""
    seen, deadline = [], time.monotonic() + seconds
    while True:
        found = space.read(MODEL)
        encoders = found["status"].get("encoders") or {}
        assert found["spec"].get("replicas", 1) == 1, "the language model was scaled"
        if encoders and seen[-1:] != [encoders["replicas"]]:
            seen.append(encoders["replicas"])
        if holds(found["status"]):
            return seen
        assert time.monotonic() < deadline, found["status"]
        time.sleep(1)


def _ready(number: int) -> Callable[[dict[str, Any]], bool]:
    wanted = {"replicas": number, "readyReplicas": number}
    return lambda status: wanted.items() <= (status.get("encoders") or {}).items()


def test_encoders_follow_images_and_servers_stay(installed: Installed, tmp_path: Path) -> None:
    """1 -> 3 -> 1 encoders while one replica answers everything."""
    _write(tmp_path / "checkpoint")
    with model_space(installed, "image-work") as space:
        space.upload(tmp_path / "checkpoint", "llava")
        vision = {"placement": "Disaggregated", "resources": ENCODER}
        gateway = {"maxQueueSize": 5000, "requestTimeout": "1800s"}
        engine = {"maxBatchSize": 16, "maxImagesPerRequest": 1}
        space.apply(space.model(MODEL, "llava", engine=engine, vision=vision, gateway=gateway))
        space.wait_ready(MODEL, START_SECONDS)
        mmctl = str(Path(sys.executable).parent / "mmctl")
        follower = Follower(installed.target, space.name, MODEL, print, mmctl)
        program = str(Path(sys.executable).parent / "mm-lab")
        questions = ("--images", "1", "--picture-size", str(SIDE), "--max-tokens", "4")
        client = Client(
            (program, "bench", follower.address(), *questions), installed.target.environment
        )
        with monitoring.running(installed.target):
            follower.patch(_autoscaled())
            _until(space, _ready(1), START_SECONDS)
            with offered(client, RATE, "ttft=2000ms") as load:
                up = _until(space, _ready(MOST), UP_SECONDS)
                explained = follower.explained()
            down = _until(space, _ready(1), DOWN_SECONDS)
        assert (up[0], up[-1], down[0], down[-1]) == (1, MOST, MOST, 1)
        assert (load.failed, load.answered > 0) == ([], True)
        assert "images/s per replica" in explained
        events = space.get("events")["items"]
        notes = [one.get("note") or one.get("message", "") for one in events]
        assert any(note.startswith("encoders 1 -> ") for note in notes)
