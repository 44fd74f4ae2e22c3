"""The command behind `make demo-autoscaling`: load over the SLO, replicas that follow, the reason.

Works on a model that serves already, on a development cluster, with a Prometheus of its own.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mm_api.hosts import bracketed
from mm_devcluster import cluster
from mm_devcluster.demo import monitoring, settings
from mm_devcluster.demo.load import REQUEST_SECONDS, Client, Load, capacity, offered
from mm_devcluster.demo.target import Target, run_program
from mm_devcluster.demo.walk import NOT_THERE, conditions_of, is_rolled_out
from mm_devcluster.errors import DevClusterError

MOST = 3
"""Replicas: a fourth one would not fit beside the others on a machine of two cores."""
REPLICA_CPU = "500m"
"""For one server. Without a limit one replica takes every core, and a second one adds nothing."""
QUEUE = 5000
"""No request is refused while the second replica starts: answers are late, but complete."""
TARGET_SECONDS = 2.0
"""To the first token, 95 of 100. Measured at rest 0.1 to 0.3; over the limit it grows without end.
"""
CALIBRATION_SECONDS = 15
OVERLOAD = 1.5
"""Times what one replica can answer: two of them then work at 75 %, three at 50 %."""
WINDOW_SECONDS = 20
"""Stabilisation downward: a demo should not wait for the usual five minutes."""
ROLLOUT_SECONDS = 600.0
UP_SECONDS = 900.0  # a replica's start included: 60 on a quiet machine, minutes on a busy one
MET_SECONDS = 900.0  # what had queued is answered first, and leaves the windows of the percentiles
DOWN_SECONDS = 1800.0  # twice a cold start after the last change at least
POLL_SECONDS = 1.0
WELL = 0.95
"""Share of a stretch's requests within the objective: its percentile."""


@dataclass
class Walk:
    """What happened."""

    replicas: list[int] = field(default_factory=list)
    """Every number that spec.replicas had, in order."""
    rate: float = 0.0
    """Requests offered a second."""
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    worst_goodput: float = 1.0
    """In a stretch of the load: what clients saw before the new replica helped."""
    last_goodput: float = 0.0
    """In the last stretch before the load ended."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Since the load began: risen, ready, met; since it ended: fallen."""
    explanation: str = ""
    """While the objective was missed."""

    @property
    def turns(self) -> int:
        """Return how often the direction changed; the way back is one of them."""
        steps = [
            after - before for before, after in zip(self.replicas, self.replicas[1:], strict=False)
        ]
        return sum(one * two < 0 for one, two in itertools.pairwise(steps))


class Follower:
    """Watches one model, and reports what changes.

    Args:
        target: the cluster.
        namespace: of the model.
        model: its name.
        report: receives lines for people.
        mmctl: the program.
    """

    def __init__(
        self, target: Target, namespace: str, model: str, report: Callable[[str], None], mmctl: str
    ) -> None:
        self.target = target
        self.where = ("multimodalmodel", model, "--namespace", namespace)
        self.report = report
        self.mmctl = mmctl
        self.done = Walk()
        self._namespace = namespace
        self._model = model
        self._reported = ""

    def look(self) -> dict[str, Any]:
        """Return the model; a new number of replicas and a new reason are reported."""
        found = self.target.document(*self.where)
        replicas = found["spec"].get("replicas", 1)
        if not self.done.replicas or self.done.replicas[-1] != replicas:
            self.done.replicas.append(replicas)
            self.report(f"replicas {replicas}")
        history = scaling_of(found).get("history") or [{}]
        if history[0] and history[0]["time"] != self._reported:
            self._reported = history[0]["time"]
            self.report(f"  because {history[0]['reason']}")
        return found

    def until(
        self, what: str, holds: Callable[[Mapping[str, Any]], bool], seconds: float
    ) -> dict[str, Any]:
        """Look until something holds.

        Raises:
            DevClusterError: not in time; the explanation is in the message.
        """
        deadline = time.monotonic() + seconds
        while not holds(found := self.look()):
            if time.monotonic() > deadline:
                raise DevClusterError(f"{what} after {seconds:.0f} s:\n{self.explained()}")
            time.sleep(POLL_SECONDS)
        return found

    def patch(self, spec: Mapping[str, Any]) -> None:
        """Change the model's spec."""
        self.target.call("patch", *self.where, "--type=merge", "-p", json.dumps({"spec": spec}))

    def explained(self) -> str:
        """Return what `mmctl scaling explain` says."""
        command = [self.mmctl, "scaling", "explain", *self.where[1:]]
        return run_program(command, self.target.environment, None, 60)

    def address(self) -> str:
        """Return where the model answers."""
        service = self.target.document("service", *self.where[1:])
        return f"http://{bracketed(service['spec']['clusterIP'])}/v1"

    def rolled_out(self, found: Mapping[str, Any]) -> bool:
        """Return whether the present spec serves, with one replica."""
        deployment = self.target.document("deployment", *self.where[1:])
        ready = conditions_of(found).get("Ready", NOT_THERE).holds
        return ready and is_rolled_out(deployment) and ready_replicas(found) == 1


def walk(
    target: Target,
    namespace: str,
    model: str,
    report: Callable[[str], None],
    mmctl: str,
    *,
    cpu: str = REPLICA_CPU,
    most: int = MOST,
    overload: float = OVERLOAD,
) -> Walk:
    """Load a model over its SLO until more replicas keep it, then take the load away.

    The model is left as it was found.

    Raises:
        DevClusterError: replicas did not follow in time; the explanation is in the message.
    """
    follower = Follower(target, namespace, model, report, mmctl)
    before = follower.look()["spec"]
    report(f"each replica may take {cpu} of CPU: rolling that out")
    follower.patch(limited(cpu))
    try:
        follower.until("the limit is not rolled out", follower.rolled_out, ROLLOUT_SECONDS)
        follower.done.replicas = [1]
        program = str(Path(sys.executable).parent / "mm-lab")
        client = Client((program, "bench", follower.address(), *QUESTIONS), target.environment)
        follower.done.rate = round(overload * capacity(client, _slots(before), CALIBRATION_SECONDS))
        with monitoring.running(target):
            report(f"Prometheus at {monitoring.address_of(target)}")
            follower.patch({"autoscaling": autoscaling(most)})
            follower.until("metrics are not seen", _follows, UP_SECONDS)
            _overload(follower, client)
            _rest(follower)
    finally:
        with suppress(DevClusterError):
            follower.patch(_restoring(before))
    return follower.done


QUESTIONS = ("--images", "1:3,0:1", "--picture-size", "56", "--max-tokens", "16")
"""Three of four with an image; small ones, which cost this machine little to make."""


def _overload(follower: Follower, client: Client) -> None:
    """Offer more than one replica can answer until more of them keep the objective."""
    done, report = follower.done, follower.report
    objective = f"ttft={TARGET_SECONDS * 1000:.0f}ms"
    report(f"{done.rate:g} requests a second: more than one replica answers")
    began = time.monotonic()
    with offered(client, done.rate, objective) as load:
        follower.until("replicas did not rise", lambda one: replicas_of(one) > 1, UP_SECONDS)
        done.seconds["risen"] = time.monotonic() - began
        done.explanation = follower.explained()
        report(done.explanation)
        follower.until("the replicas do not serve", lambda one: ready_replicas(one) > 1, UP_SECONDS)
        done.seconds["ready"] = time.monotonic() - began
        shown = 0

        def met(found: Mapping[str, Any]) -> bool:
            nonlocal shown
            for one in load.stretches[shown:]:
                shown += 1
                report(
                    f"  load of second {one.began:.0f} on: first token of 95 % within "
                    f"{one.first_token_seconds:.2f} s, {one.goodput:.0%} within the objective"
                )
            return kept(found) and bool(load.stretches) and load.stretches[-1].goodput >= WELL

        follower.until("the objective is not met again", met, MET_SECONDS)
        done.seconds["met"] = time.monotonic() - began
    _note(done, load)
    report(f"the objective is kept; the load ends: {done.answered} answered, failed: {done.failed}")
    report(follower.explained())


def _rest(follower: Follower) -> None:
    """Wait until the replicas are given back."""
    began = time.monotonic()
    follower.until("replicas did not fall", lambda one: ready_replicas(one) == 1, DOWN_SECONDS)
    follower.done.seconds["fallen"] = time.monotonic() - began
    follower.report(follower.explained())


def _note(done: Walk, load: Load) -> None:
    done.answered, done.failed = load.answered, load.failed
    done.worst_goodput = min(one.goodput for one in load.stretches)
    # A later stretch may end before an earlier one that queued.
    done.last_goodput = max(load.stretches, key=lambda one: one.began).goodput


def limited(cpu: str) -> dict[str, Any]:
    """Return the part of the spec that leaves one replica, with a size of its own."""
    return {
        "replicas": 1,
        "runtime": {"resources": {"limits": {"cpu": cpu}}},
        "gateway": {"maxQueueSize": QUEUE, "requestTimeout": f"{REQUEST_SECONDS}s"},
    }


def autoscaling(most: int) -> dict[str, Any]:
    """Return the part of the spec that the demo sets."""
    target = f"{TARGET_SECONDS:.0f}s"
    return {
        "minReplicas": 1,
        "maxReplicas": most,
        "objectives": [{"metric": "TimeToFirstToken", "percentile": 95, "target": target}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": WINDOW_SECONDS}},
    }


def scaling_of(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return status.scaling of a model."""
    scaling: Mapping[str, Any] = (found.get("status") or {}).get("scaling") or {}
    return scaling


def replicas_of(found: Mapping[str, Any]) -> int:
    """Return the requested number of replicas."""
    return int(found["spec"].get("replicas", 1))


def ready_replicas(found: Mapping[str, Any]) -> int:
    """Return the replicas, once all requested ones answer; else 0."""
    replicas = replicas_of(found)
    return replicas if (found.get("status") or {}).get("readyReplicas") == replicas else 0


def kept(found: Mapping[str, Any]) -> bool:
    """Return whether the operator sees every objective met."""
    objectives = scaling_of(found).get("objectives") or ()
    return bool(objectives) and all(one.get("met") for one in objectives)


def main() -> int:
    """Run the walk on the demo's model; 0 when replicas followed and nothing failed."""
    parser = argparse.ArgumentParser(prog="demo-autoscaling", description=__doc__)
    parser.add_argument("--cluster", default=settings.Options.cluster)
    name = parser.parse_args().cluster
    mmctl = str(Path(sys.executable).parent / "mmctl")
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"[{time.monotonic() - began:5.0f} s] {line}", flush=True)

    try:
        found = cluster.info(name)
        target = Target(found.name, found.kubeconfig, found.kubectl)
        done = walk(target, settings.DEMO_NAMESPACE, settings.MODEL, report, mmctl)
    except DevClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    report(summary(done))
    return 1 if done.failed or done.turns > 1 else 0


def summary(done: Walk) -> str:
    """Return what happened in one sentence."""
    times = ", ".join(f"{name} after {seconds:.0f} s" for name, seconds in done.seconds.items())
    return (
        f"replicas went {' -> '.join(map(str, done.replicas))} ({times}); goodput "
        f"{done.worst_goodput:.0%} at the worst, {done.last_goodput:.0%} at the end; "
        f"{done.answered} requests answered, {len(done.failed)} kinds of failures, "
        f"{max(0, done.turns - 1)} reversals beside the way back"
    )


def _restoring(before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that undoes `limited`, `autoscaling` and what it moved."""
    resources = (before.get("runtime") or {}).get("resources") or {}
    gateway = before.get("gateway") or {}
    return {
        "autoscaling": before.get("autoscaling"),
        "replicas": before.get("replicas", 1),
        "runtime": {"resources": {"limits": {"cpu": (resources.get("limits") or {}).get("cpu")}}},
        "gateway": {name: gateway.get(name) for name in ("maxQueueSize", "requestTimeout")},
    }


def _slots(spec: Mapping[str, Any]) -> int:
    return int(spec["engine"].get("maxBatchSize", 1))


def _follows(found: Mapping[str, Any]) -> bool:
    return conditions_of(found).get("ScalingActive", NOT_THERE).holds


if __name__ == "__main__":
    sys.exit(main())
