"""`behavior` means what it means in HorizontalPodAutoscaler v2."""

from mm_api.v1alpha1.behavior import ScalingPolicy, ScalingRules
from mm_operator.autoscaling import Objectives, Sample, Veto
from mm_operator.autoscaling.rate_limits import RateLimited, rate_limited
from support.cases import cases
from support.ticks import START

# The documented example of Kubernetes' "Support for configurable scaling behavior":
# 4 pods a minute, or 10 percent a minute, whichever is more.
DOWN = ScalingRules(
    policies=(
        ScalingPolicy(type="Pods", value=4, period_seconds=60),
        ScalingPolicy(type="Percent", value=10, period_seconds=60),
    )
)


def pace(
    recommendation: int,
    current: int,
    up: ScalingRules = ScalingRules(),  # noqa: B008 (frozen)
    down: ScalingRules = ScalingRules(),  # noqa: B008 (frozen)
    *,
    recommendations: dict[float, int] | None = None,
    changes: dict[float, int] | None = None,
) -> RateLimited:
    """Return the pace now; wishes and changes by their age in seconds."""
    return rate_limited(
        recommendation,
        current,
        START,
        recommendations=tuple(
            Sample(START - age, value) for age, value in (recommendations or {}).items()
        ),
        changes=tuple(Sample(START - age, value) for age, value in (changes or {}).items()),
        objectives=Objectives(1, 200, scale_up=up, scale_down=down),
    )


@cases(
    "expected current",
    {
        "a-tenth-of-80": (72, 80),
        "a-tenth-of-72-rounded-up": (64, 72),
        "four-pods": (36, 40),
        "four-pods-of-ten": (6, 10),
    },
)
def test_the_widest_policy_holds(expected: int, current: int) -> None:
    """Percent above 40 pods, four pods at or below: the example of Kubernetes' documentation."""
    assert expected == pace(1, current, down=DOWN).replicas


def test_the_narrowest_policy_holds_when_requested() -> None:
    narrow = ScalingRules(select_policy="Min", policies=DOWN.policies)

    assert pace(1, 80, down=narrow).replicas == 76


def test_what_moved_in_the_period_counts() -> None:
    assert pace(1, 38, down=DOWN, changes={30.0: -2}).replicas == 36
    assert pace(1, 36, down=DOWN, changes={30.0: -4}).replicas == 36


def test_a_period_forgets() -> None:
    assert pace(1, 36, down=DOWN, changes={90.0: -4}).replicas == 32


def test_doubling_is_rounded_up() -> None:
    rules = ScalingRules(policies=(ScalingPolicy(type="Percent", value=50, period_seconds=15),))

    assert pace(9, 1, up=rules).replicas == 2


def test_a_window_down_holds_the_highest_wish() -> None:
    held = pace(
        3,
        10,
        down=ScalingRules(stabilization_window_seconds=300),
        recommendations={400.0: 9, 200.0: 7, 100.0: 4},
    )

    assert (held.replicas, tuple(one.veto for one in held.vetoed)) == (7, (Veto.STABILIZATION,))


def test_a_window_up_holds_the_lowest_wish() -> None:
    rules = ScalingRules(stabilization_window_seconds=120)

    assert pace(9, 4, up=rules, recommendations={60.0: 6}).replicas == 6
    assert pace(9, 4, up=rules, recommendations={60.0: 2}).replicas == 4


def test_a_direction_can_be_forbidden() -> None:
    rules = ScalingRules(select_policy="Disabled")
    held = pace(3, 10, down=rules)

    assert (held.replicas, tuple(one.veto for one in held.vetoed)) == (10, (Veto.DISABLED,))
    assert pace(12, 10, down=rules).replicas == 12
