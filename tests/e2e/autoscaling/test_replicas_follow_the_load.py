"""On the entire development cluster: load over the SLO, more replicas keep it, and go again."""

import sys
from pathlib import Path

import pytest

from mm_devcluster.demo.autoscaling import WELL, walk
from support.installed import Installed, model_space
from support.tiny_llava import CHECKPOINT

pytestmark = [pytest.mark.cluster, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(5400)]

MODEL = "followed"


def test_replicas_follow_the_load_and_come_back(installed: Installed) -> None:
    """The SLO is missed, then met again; up once, down once, every request answered."""
    mmctl = str(Path(sys.executable).parent / "mmctl")
    with model_space(installed, "autoscaling") as space:
        space.upload(CHECKPOINT, "tiny")
        space.apply(space.model(MODEL, "tiny"))
        space.wait_ready(MODEL)

        done = walk(installed.target, space.name, MODEL, print, mmctl)

        assert (done.replicas[0], done.replicas[-1]) == (1, 1)
        assert (done.failed, done.turns) == ([], 1)
        assert done.worst_goodput < WELL <= done.last_goodput
        assert done.answered > 20 * done.rate
        assert "TimeToFirstTokenP95" in done.explanation
