"""On the whole development cluster: replicas follow the load up and down, no request fails."""

import sys
from pathlib import Path

import pytest

from mm_devcluster.demo.autoscaling import walk
from support.installed import Installed, model_space
from support.tiny_llava import CHECKPOINT

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1500)]

MODEL = "followed"


def test_replicas_follow_the_load_and_come_back(installed: Installed) -> None:
    """Up once, down once, every request answered, and the reason is told meanwhile."""
    mmctl = str(Path(sys.executable).parent / "mmctl")
    with model_space(installed, "autoscaling") as space:
        space.upload(CHECKPOINT, "tiny")
        space.apply(space.model(MODEL, "tiny"))
        space.wait_ready(MODEL)

        done = walk(installed.target, space.name, MODEL, print, mmctl)

        assert (done.replicas, done.failed, done.reversals) == ([1, 2, 1], [], 1)
        assert done.answered > 0
        assert "TimeToFirstTokenP95" in done.explanation
