"""A canary's state machine, step by step, against versions that are good, bad or hardly used."""

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from mm_api.documents.evaluation import EvaluationReport, FirstDifference
from mm_api.documents.router_state import CanaryEvidence, Pairs
from mm_api.documents.server_state import ServerState
from mm_api.v1alpha1 import CanarySpec, RolloutStatus
from mm_operator.model import CanaryDecision, Observed, PodState
from mm_operator.plan.canary import (
    FALSE_ALARM,
    FALSE_PASS,
    LATENCY_MARGIN,
    CanarySeen,
    Comparison,
    decide_canary,
    finish_canary,
)
from mm_operator.plan.canary_rollout import canary_of, unsupported
from support.cases import cases
from support.imagined_cluster import ImaginedCluster
from support.models import SETTINGS, snapshot_of, spec_of, tiny_facts

BEGAN = datetime(2026, 11, 30, tzinfo=UTC)
SPEC = CanarySpec.model_validate(
    {
        "steps": [{"weight": 10, "pause": "5m"}, {"weight": 50}],
        "analysis": {
            "firstTextIncreasePercent": 25,
            "interTokenIncreasePercent": 25,
            "answers": {},
        },
    }
)
GOOD = {
    name: Pairs(better=200, equal=200)
    for name in ("errors", "first_text", "inter_token", "text_answers", "image_answers")
}
SEEN = CanarySeen("new", replicas=4, available=4, now=BEGAN)


def evidence(status: RolloutStatus, **pairs: Pairs) -> CanaryEvidence:
    return CanaryEvidence(
        revision=status.revision, step=status.step, weight=status.weight, **{**GOOD, **pairs}
    )


@dataclass
class Life:
    """One canary, whose recorded state goes through JSON each time, as after a restart."""

    status: RolloutStatus | None = None
    now: datetime = BEGAN

    def decide(
        self, seen: CanarySeen = SEEN, *, after: float = 1, **pairs: Pairs
    ) -> CanaryDecision:
        self.now += timedelta(seconds=after)
        looked = () if self.status is None else (evidence(self.status, **pairs),)
        looked = () if pairs.get("errors") == Pairs() else looked
        seen = replace(seen, now=self.now, evidence=looked)
        decision = decide_canary(SPEC, "30m", self.status, seen)
        self.status = RolloutStatus.model_validate_json(decision.status.model_dump_json())
        return decision

    def in_a_step(self) -> RolloutStatus:
        self.decide()
        self.decide()
        assert self.status is not None
        assert (self.status.phase, self.status.step, self.status.weight) == ("Progressing", 1, 10)
        return self.status


def test_a_good_version_goes_through_its_steps() -> None:
    life = Life()
    walk = []
    for _ in range(12):
        decision = life.decide(after=100)
        state = (decision.status.phase, decision.status.step, decision.status.weight)
        if not walk or walk[-1] != (*state, decision.pods):
            walk.append((*state, decision.pods))
    assert walk == [
        ("Progressing", 1, 0, 1),
        ("Progressing", 1, 10, 1),
        ("Progressing", 2, 10, 2),
        ("Progressing", 2, 50, 2),
        ("Promoting", 2, 50, 2),
    ]
    assert decision.replaces
    done = finish_canary(SPEC, life.status, SEEN, complete=True)
    assert done is not None
    assert (done.status.phase, done.status.weight, done.pods) == ("Promoted", 0, 2)
    over = finish_canary(SPEC, done.status, SEEN, complete=True)
    assert over is not None
    assert over.pods == 0


ENDED = replace(SEEN, failed=("PodsCrashing", "it was restarted"))


@cases(
    "seen pairs reason",
    {
        "errs": (SEEN, {"errors": Pairs(worse=30, equal=70)}, "ErrorsIncreased"),
        "slow": (SEEN, {"first_text": Pairs(worse=40, better=5)}, "FirstTextSlower"),
        "slow to write": (SEEN, {"inter_token": Pairs(worse=40, better=5)}, "InterTokenSlower"),
        "answers otherwise": (SEEN, {"text_answers": Pairs(worse=14, equal=26)}, "AnswersDiffer"),
        "is blind": (SEEN, {"image_answers": Pairs(worse=14, equal=26)}, "AnswersDiffer"),
        "restarted": (ENDED, {}, "PodsCrashing"),
        "aborted": (replace(SEEN, command="abort new"), {}, "Aborted"),
    },
)
def test_a_worse_version_goes_back(seen: CanarySeen, pairs: dict[str, Pairs], reason: str) -> None:
    life = Life()
    life.in_a_step()
    first, second = life.decide(seen, **pairs), life.decide(**pairs)
    assert (first.status.phase, first.status.reason, first.status.weight) == (
        "RolledBack",
        reason,
        0,
    )
    # Recorded first: an operator that ends now finds it, and the pods go with the next round.
    assert (first.pods, first.look_in, second.pods) == (1, 0.0, 0)
    assert life.decide().status == first.status


def test_what_was_sent_back_stays_so_without_replicas() -> None:
    """Else the model would begin with it once it has replicas again."""
    cluster, canary = (
        ImaginedCluster(),
        {"strategy": "Canary", "canary": {"steps": [{"weight": 9}]}},
    )

    def revision(replicas: int, team: str) -> str:
        changes = {
            "rollout": canary,
            "replicas": replicas,
            "runtime": {"podLabels": {"team": team}},
        }
        cluster.apply("llava", changes)
        return cluster.plans["llava"].rollout.serving_hash

    revision(1, "first")
    cluster.models["llava"] = replace(
        cluster.models["llava"], settings=replace(SETTINGS, routed=True)
    )
    cluster.inspected(tiny_facts())
    cluster.built()
    cluster.pods_ready("llava")
    first = revision(1, "first")
    assert revision(1, "second") == first
    model = cluster.models["llava"]
    command = f"abort {model.status['rollout']['revision']}"
    cluster.models["llava"] = replace(model, command=command)
    assert [revision(count, "second") for count in (1, 0, 1)] == [first] * 3
    assert cluster.models["llava"].status["rollout"]["phase"] == "RolledBack"
    assert revision(0, "third") != first


def test_too_little_traffic_holds_until_the_deadline() -> None:
    life = Life()
    life.in_a_step()
    phases = [life.decide(after=600, errors=Pairs(equal=30)).status.phase for _ in range(4)]
    assert phases == ["Progressing"] * 3 + ["RolledBack"]
    assert life.status is not None
    assert life.status.reason == "ProgressDeadlineExceeded"
    assert "too few requests" in life.status.message


@cases(
    "modalities pairs phase",
    {
        "few": (("text", "image"), {"image_answers": Pairs(equal=20)}, "Progressing"),
        "none": (("text", "image"), {"text_answers": Pairs()}, "Progressing"),
        "reads no images": (("text",), {"image_answers": Pairs()}, "Promoting"),
        "as many as are tolerated": (("text",), {"text_answers": Pairs(worse=9, equal=81)}, ""),
    },
)
def test_answers_pass_once_enough_are_alike(
    modalities: tuple[str, ...], pairs: dict[str, Pairs], phase: str
) -> None:
    """Below the deadline nothing else moves; between the bounds it neither passes nor goes back."""
    life = Life()
    life.in_a_step()
    seen = replace(SEEN, modalities=modalities)
    for _ in range(6):
        status = life.decide(seen, after=301, **pairs).status
    assert status.phase == (phase or "Progressing")
    if phase == "Progressing":
        assert "too few requests" in status.message


def test_a_revision_unlike_its_checkpoint_gets_no_chat() -> None:
    """Its pods say so and are not Ready; the same of another engine does not count."""
    first = FirstDifference(prompt="a", token=1, expected="b", answered="c", distance=9, bound=1)
    report = EvaluationReport(
        fingerprint="ab" * 32,
        prompts=1,
        tokens=1,
        agreed=0,
        near_ties=0,
        failed_prompts=1,
        first_difference=first,
    )
    snapshot = snapshot_of(
        observed=Observed(canary_pods=(PodState("new", "Running", ready=False),)),
        servers=(ServerState(evaluation=report),),
        status={"rollout": Life().decide().status.model_dump(by_alias=True)},
    )
    found = [canary_of(snapshot, spec_of(), SPEC, "new", one * 32) for one in ("cd", "ab")]
    states = [(one.status.phase, one.status.weight, one.status.reason) for one in found if one]
    assert states == [("Progressing", 0, "PodsStarting"), ("RolledBack", 0, "EvaluationFailed")]


def test_a_model_without_chats_has_no_answers_to_compare() -> None:
    snapshot = snapshot_of(status={"plan": {"inputModalities": ["audio"]}})
    assert canary_of(snapshot, spec_of(), SPEC, "new", "") is None
    assert "and the model reads audio alone" in unsupported(snapshot, SPEC)


def test_evidence_of_another_step_does_not_count() -> None:
    life = Life()
    step = life.in_a_step()
    for stale in ({"weight": 0}, {"step": 2}, {"revision": "old"}):
        seen = replace(SEEN, now=BEGAN + timedelta(hours=0.1))
        seen = replace(seen, evidence=(evidence(step).model_copy(update=stale),))
        status = decide_canary(SPEC, "30m", step, seen).status
        assert (status.phase, status.step, status.reason) == ("Progressing", 1, "Analyzing")


PAIRS = st.builds(
    Pairs, worse=st.integers(0, 400), better=st.integers(0, 400), equal=st.integers(0, 400)
)


@given(
    st.lists(
        st.tuples(
            PAIRS,
            PAIRS,
            st.integers(0, 4),
            st.floats(0, 4000),
            st.sampled_from(["", "restarted"]),
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(deadline=None, max_examples=300)
def test_no_step_is_passed_without_proof(
    rounds: list[tuple[Pairs, Pairs, int, float, str]],
) -> None:
    life = Life()
    for errors, first_text, available, seconds, ended in rounds:
        before = life.status
        failed = ("PodsCrashing", ended) if ended else None
        seen = replace(SEEN, available=available, failed=failed)
        pairs = {"errors": errors, "first_text": first_text}
        decision = life.decide(seen, after=seconds, **pairs)
        status = decision.status
        if before is None or before.phase != "Progressing":
            assert before is None or before == status  # over: nothing moves by itself
            assert bool(decision.pods) == (before is None or before.phase == "Promoting")
            continue
        moved = (status.step, status.phase) != (before.step, "Progressing")
        if moved and status.phase != "RolledBack":
            compared = (
                Comparison("Errors", errors, 0.05),
                Comparison("FirstText", first_text, LATENCY_MARGIN),
            )
            assert [one.verdict for one in compared] == ["Passed", "Passed"]
            assert not ended
            assert available >= before.step
        if status.weight > before.weight:
            assert available >= status.step
        assert decision.replaces is False


@cases(
    "worse better bounds verdict",
    {
        "of equal versions few are called worse": (0.3, 0.3, (0.5, 0), "Worse"),
        "of equally failing ones, too": (0.05, 0.05, (0.05, 0), "Worse"),
        "of versions that differ as tolerated few": (0.1, 0, (0.2, 0.1), "Worse"),
        "of those that may differ much": (0.4, 0, (0.8, 0.4), "Worse"),
        "of versions that err more few pass": (0.1, 0.05, (0.05, 0), "Passed"),
        "of slow versions few pass": (0.75, 0.25, (0.5, 0), "Passed"),
        "of versions that differ twice as often few": (0.2, 0, (0.2, 0.1), "Passed"),
    },
)
def test_errors_of_the_test_are_as_rare_as_stated(
    worse: float, better: float, bounds: tuple[float, float], verdict: str
) -> None:
    """Looked at after every pair, in 400 canaries of 300 pairs each."""
    rate = FALSE_ALARM if verdict == "Worse" else FALSE_PASS
    wrong, canaries = 0, 400
    rng = random.Random(7)  # noqa: S311
    for _ in range(canaries):
        counts = {"worse": 0, "better": 0, "equal": 0}
        for _ in range(300):
            drawn = rng.random()
            kind = "worse" if drawn < worse else "better" if drawn < worse + better else "equal"
            counts[kind] += 1
            if Comparison("x", Pairs(**counts), *bounds).verdict == verdict:
                wrong += 1
                break
    # Three standard deviations above the stated rate.
    assert wrong <= canaries * rate + 3 * (canaries * rate) ** 0.5
