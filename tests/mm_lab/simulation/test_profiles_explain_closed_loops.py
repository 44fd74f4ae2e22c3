"""A simulated replica is fitted to what users saw, and says so when that cannot be."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

from mm_lab.simulation import ServiceProfile

FOLDER = Path(__file__).parents[3] / "bench" / "autoscaling"
TRUE = ServiceProfile(
    name="true",
    prompt_seconds=0.004,
    image_token_seconds=0.0002,
    text_token_seconds=0.00005,
    step_seconds=0.002,
    step_seconds_per_request=0.001,
    slots=4,
    queue_size=64,
    cold_start_seconds=0.0,
    beside_seconds=0.012,
)
MIXED = tuple((16 * (number % 2), 30 + 100 * (number % 3), 4 + number % 9) for number in range(60))


@pytest.fixture
def fitting(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module that fits; it is a plain module beside the bench."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("fitting")


def test_a_fit_predicts_loops_that_it_has_not_seen(fitting: ModuleType) -> None:
    shapes = [((0, 31, 6),) * 8, ((0, 231, 6),) * 8, ((16, 31, 6),) * 8]
    seen = [(1, shape) for shape in shapes] + [(users, MIXED) for users in (1, 4, 12)]
    loops = [
        fitting.Loop(users, contents, *fitting.lived(TRUE, contents, users))
        for users, contents in seen
    ]

    found, off = fitting.fitted(loops, name="found", slots=4, queue_size=64)

    assert off < 1.03
    for users in (2, 16):
        expected = fitting.lived(TRUE, MIXED, users)
        assert fitting.lived(found, MIXED, users) == pytest.approx(expected, rel=0.1)


def test_what_is_spent_side_by_side_fills_no_replica(fitting: ModuleType) -> None:
    """A user alone waits for it; sixteen get as much done as without it."""
    contents = ((0, 0, 1),) * 160
    first = fitting.lived(TRUE, contents, 1)
    crowd = fitting.lived(TRUE, contents, 16)

    assert first[1] == pytest.approx(0.016)
    assert crowd[0] == pytest.approx(1 / 0.004, rel=0.05)


@pytest.mark.parametrize("seconds", [0.0, -0.0003])
def test_a_time_of_zero_or_less_is_an_error_with_a_message(
    fitting: ModuleType, seconds: float
) -> None:
    with pytest.raises(fitting.FitError, match=r"a step of no requests comes out at .* quiet"):
        fitting.above_zero("a step of no requests", seconds)


def test_nothing_measured_is_an_error_with_a_message(fitting: ModuleType) -> None:
    with pytest.raises(fitting.FitError, match="no closed loop was answered"):
        fitting.fitted([], name="none", slots=4, queue_size=64)


def test_times_that_drown_in_noise_are_reported(fitting: ModuleType) -> None:
    """A token that costs next to nothing is named, instead of silently being zero."""
    tiny = ServiceProfile(
        "tiny", 0.004, 0.0002, 2e-7, 0.002, 0.001, 4, 64, cold_start_seconds=0, beside_seconds=0.01
    )

    assert fitting.unseen(tiny) == [
        "text_token_seconds comes out at 2.0e-07 s: too short to be distinguished from noise here"
    ]
    assert fitting.unseen(TRUE) == []


RESULTS = Path(__file__).parents[3] / "bench" / "autoscaling" / "results"


def test_the_profile_is_fitted_to_the_measured_medians() -> None:
    """Seconds of a prompt token and of a decoding step are slopes through the measured points."""
    measured = json.loads((RESULTS / "demo.json").read_text(encoding="utf-8"))["cpu_seconds"]
    text = (RESULTS / "demo-profile.yaml").read_text(encoding="utf-8")
    profile = ServiceProfile(**yaml.safe_load(text))

    prompts = measured["prompt_by_tokens"]
    token, _ = np.polyfit([int(one) for one in prompts], list(prompts.values()), 1)
    batches = measured["decode_by_batch"]
    _, step = np.polyfit([int(one) for one in batches], list(batches.values()), 1)

    assert profile.text_token_seconds == pytest.approx(token)
    assert profile.step_seconds == pytest.approx(step)
