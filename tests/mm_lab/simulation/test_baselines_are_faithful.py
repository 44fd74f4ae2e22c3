"""The baselines of the bench give what their own projects' tests expect of the originals."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from mm_lab.simulation.score import Targets
from support.cases import cases


def _load() -> ModuleType:
    path = Path(__file__).parents[3] / "bench" / "autoscaling" / "baselines.py"
    spec = importlib.util.spec_from_file_location("bench_baselines", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


baselines = _load()


@cases(
    "expected ready value target",
    {
        "ScaleUpCMExternal": (2, 1, 8600, 4400),
        "ScaleDownCMExternal": (3, 5, 8600, 14334),
        "ToleranceCMExternal": (3, 3, 8600, 8888),
    },
)
def test_hpa_value(expected: int, ready: int, value: float, target: float) -> None:
    """Cases of Kubernetes' `replica_calculator_test.go` for metrics of type `Value`."""
    assert expected == baselines.hpa_value(ready, value, target)


@cases(
    "expected current value target",
    {
        "ScaleUpPerPodCMExternal": (4, 3, 8600, 2150),
        "ScaleDownPerPodCMExternal": (3, 5, 8600, 2867),
        "TolerancePerPodCMExternal": (4, 4, 8600, 2200),
    },
)
def test_hpa_average_value(expected: int, current: int, value: float, target: float) -> None:
    """Cases of the same file for metrics of type `AverageValue`."""
    assert expected == baselines.hpa_average(current, value, target)


@cases(
    "expected current use up_rate down_rate",
    {
        "basic_scale_up": (3, 2, 45, 2, 2),
        "scale_up_upto_ceiling": (3, 2, 35, 2, 2),
        "scale_up_upto_max_scale_up": (4, 2, 90, 2, 2),
        "scale_up_upto_max_scale_up_ceiling": (5, 2, 90, 2.5, 2),
        "basic_scale_down": (4, 6, 20, 2, 2),
        "scale_down_upto_ceiling": (4, 6, 18, 2, 2),
        "scale_down_upto_max_scale_down": (3, 6, 10, 2, 2),
        "scale_down_upto_max_scale_down_floor": (2, 6, 5, 2, 2.5),
        "no_scaling_as_within_up_tolerance": (2, 2, 33, 2, 2),
        "no_scaling_as_within_down_tolerance": (2, 2, 27, 2, 2),
    },
)
def test_apa(expected: int, current: int, use: float, up_rate: float, down_rate: float) -> None:
    """All cases of AIBrix' `apa_test.go`, target 30."""
    assert expected == baselines.apa(current, use / 30, up_rate=up_rate, down_rate=down_rate)


def test_kpa_follows_the_stable_window() -> None:
    up = baselines.Kpa(10, max_up_rate=10, max_down_rate=10)
    down = baselines.Kpa(10, max_up_rate=10, max_down_rate=10)

    assert [up.scale(0, 1, 50, 10), up.scale(2, 1, 100, 10)] == [5, 10]
    assert [down.scale(0, 8, 100, 100), down.scale(2, 8, 50, 50)] == [10, 5]


def test_kpa_panics_and_comes_down() -> None:
    """`UnpanicAfterSlowIncrease`: from 10 to 25 pods at once, and out after a window."""
    kpa = baselines.Kpa(1, max_up_rate=10, max_down_rate=10)

    assert kpa.scale(0, 10, 11, 25) == 25
    assert kpa.scale(30, 40, 30, 41) == 41
    assert kpa.panic_since == 0
    assert kpa.scale(62, 55, 50, 56) == 50
    assert kpa.panic_since is None


def test_kpa_extends_a_panic() -> None:
    """`TestAutoscalerExtendPanicWindow`: still surging after half of the window."""
    kpa = baselines.Kpa(1, max_up_rate=10, max_down_rate=10)
    kpa.scale(0, 10, 11, 25)

    assert kpa.scale(30, 40, 30, 80) == 80
    assert kpa.panic_since == 30


@cases(
    "expected first_tokens inter_tokens safe",
    {
        "all-late": (4, [3.0, 2.5, 2.1], [0.02] * 3, True),
        "one-is-not-late": (3, [3.0, 2.5, 0.1], [0.02] * 3, False),
        "all-slow": (4, [0.1] * 3, [0.2] * 3, False),
        "one-less-is-safe": (2, [0.1] * 3, [0.02] * 3, True),
        "one-less-is-not": (3, [0.1] * 3, [0.02] * 3, False),
    },
)
def test_dynamo_load(
    expected: int,
    first_tokens: list[float],
    inter_tokens: list[float],
    safe: bool,  # noqa: FBT001 (a column of the table)
) -> None:
    """Dynamo's load loop: one more when all miss, one less when consolidation holds."""
    assert expected == baselines.dynamo_load(
        3, first_tokens, inter_tokens, targets=Targets(2.0, 0.1), can_remove=safe
    )


@cases(
    "expected moments",
    {
        "wakes-at-a-poll": ([0, 0, 1, 2], [(15, 0, 9), (30, 0, 0), (60, 0, 9), (75, 1, 20)]),
        "sleeps-after-the-cooldown": ([2, 2, 0], [(30, 2, 20), (315, 2, 0), (360, 2, 0)]),
    },
)
def test_keda_to_zero_and_back(expected: list[int], moments: list[tuple[int, int, float]]) -> None:
    """KEDA's poll of 30 s decides about zero, with a cooldown of 300 s; the HPA at each 15 s."""
    trigger = baselines.Trigger(lambda _: 0.0, 10)
    keda = baselines.Keda(trigger, min_replicas=0)

    assert expected == [keda.scale(at, current, [value]) for at, current, value in moments]
