"""The sentences that explain a number say one replica and several replicas."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from mm_api.v1alpha1.behavior import ScalingPolicy, ScalingRules
from mm_operator.autoscaling import (
    Decision,
    Observation,
    decide,
)
from mm_operator.autoscaling.wording import replicas
from support.golden import Golden
from support.ticks import SIMPLE, followed, one, tick, traffic, watched

ONE_A_MINUTE = ScalingPolicy(type="Pods", value=1, period_seconds=60)
GROWING = replace(SIMPLE, scale_up=ScalingRules(policies=(ONE_A_MINUTE,)))


def sentences(decision: Decision) -> str:
    return " ".join([decision.message, *(one.message for one in decision.vetoes)])


def waiting(pods: int) -> Observation:
    seen = traffic(4.0)
    return tick(0, 1 + pods, seen, ready=1, unschedulable=pods, unschedulable_seconds=90.0)


DECISIONS = {
    "a-part": one(1, traffic(0.4)),
    "one-busy": one(2, traffic(1.0), before=1.0),
    "several-stay": one(3, traffic(0.4), before=1.0),
    "one-warm": one(2, traffic(0.4), objectives=replace(SIMPLE, warm_replicas=1)),
    "two-warm": one(2, traffic(0.4), objectives=replace(SIMPLE, warm_replicas=2)),
    "several-help": one(1, traffic(2.0), before=2.0),
    "one-starts": one(3, traffic(0.4), before=1.0, ready=2),
    "two-start": one(3, traffic(0.4), before=1.0, ready=1),
    "one-waits": decide(waiting(1), watched(2, 0.4, SIMPLE), SIMPLE)[0],
    "two-wait": decide(waiting(2), watched(3, 0.4, SIMPLE), SIMPLE)[0],
    "pace": one(1, traffic(4.0), objectives=GROWING),
}


def test_one_is_singular(golden: Golden) -> None:
    found = {name: sentences(decision) for name, decision in DECISIONS.items()}
    golden.check_yaml("sentences.yaml", found)
    assert [list(_wrong(text)) for text in found.values()] == [[]] * len(found)


def test_a_step_down_is_reported_in_good_grammar() -> None:
    low = followed([0.4] * 80, replicas=3, objectives=SIMPLE)
    messages = [one.message for one in low if one.replicas < one.current]

    assert messages
    assert messages[-1].startswith("1 replica carries the highest load of the last minutes, ")
    assert not [wrong for one in low for wrong in _wrong(sentences(one))]


def test_counts_are_short() -> None:
    counts = (0.0, 0.95, 1, 1.04, 2.44, 12.4, 150)

    assert [replicas(one) for one in counts] == [
        "0 replicas",
        "0.95 replicas",
        "1 replica",
        "1 replica",
        "2.4 replicas",
        "12 replicas",
        "150 replicas",
    ]
    assert replicas(1, "full") == "1 full replica"


def _wrong(text: str) -> Iterator[str]:
    words = text.split()
    for count, noun in pairwise(words):
        if count == "1" and noun.rstrip(".,;") in {"replicas", "stay", "are", "wait", "carry"}:
            yield f"{count} {noun}"
