"""The command behind `make demo-autoscaling`: load, replicas that follow, the explanation.

Works on a model that serves already, on a development cluster, with a Prometheus of its own.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mm_devcluster import cluster
from mm_devcluster.demo import monitoring, settings
from mm_devcluster.demo.load import Load, clients
from mm_devcluster.demo.questions import choose_questions, read_questions
from mm_devcluster.demo.target import Target, run_program
from mm_devcluster.errors import DevClusterError

CLIENTS = 6
"""In one replica of four slots six requests are more than the 70 % that the policy aims at."""
MOST = 2
"""Replicas: a third one would not fit beside the others on a machine of two cores."""
WINDOW_SECONDS = 20
"""Stabilisation downward: a demo should not wait for the usual five minutes."""
UP_SECONDS = 300.0  # a replica's start included; measured about 40 on a quiet machine
DOWN_SECONDS = 600.0
POLL_SECONDS = 1.0


@dataclass
class Walk:
    """What happened."""

    replicas: list[int] = field(default_factory=list)
    """Every number that spec.replicas had, in order."""
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    explanation: str = ""

    @property
    def reversals(self) -> int:
        """Return how often the direction changed."""
        steps = [
            after - before for before, after in zip(self.replicas, self.replicas[1:], strict=False)
        ]
        return sum(one * two < 0 for one, two in itertools.pairwise(steps))


def walk(
    target: Target, namespace: str, model: str, tell: Callable[[str], None], mmctl: str
) -> Walk:
    """Put a model under load until it has more replicas and take the load away again.

    Raises:
        DevClusterError: replicas did not follow in time; the explanation is in the message.
    """
    done = Walk()
    where = ("multimodalmodel", model, "--namespace", namespace)
    service = target.document("service", model, "--namespace", namespace)
    address = f"http://{service['spec']['clusterIP']}/v1"
    question = choose_questions(read_questions(settings.PICTURES), 1)[0]

    def look() -> dict[str, Any]:
        found = target.document(*where)
        replicas = found["spec"].get("replicas", 1)
        if not done.replicas or done.replicas[-1] != replicas:
            done.replicas.append(replicas)
            message = ((found.get("status") or {}).get("scaling") or {}).get("message", "")
            tell(f"replicas {replicas}  {message}")
        return found

    def explained() -> str:
        command = [mmctl, "scaling", "explain", model, "--namespace", namespace]
        return run_program(command, target.environment, None, 60)

    def until(what: str, holds: Callable[[dict[str, Any]], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not holds(look()):
            if time.monotonic() > deadline:
                raise DevClusterError(f"{what} after {seconds:.0f} s:\n{explained()}")
            time.sleep(POLL_SECONDS)

    with monitoring.running(target) as prometheus:
        tell(f"Prometheus at {prometheus}")
        patch = {"spec": {"autoscaling": autoscaling(prometheus)}}
        target.call("patch", *where, "--type=merge", "-p", json.dumps(patch))
        until("metrics are not seen", _follows, UP_SECONDS)
        with clients(CLIENTS, address, model, question) as load:
            tell(f"{CLIENTS} clients ask without pause")
            until("replicas did not rise", lambda found: _ready(found) >= MOST, UP_SECONDS)
            done.explanation = explained()
            tell(done.explanation)
        _note(done, load)
        tell(f"no load any more; {load.answered} answered, {len(load.failed)} failed")
        until("replicas did not fall", lambda found: _ready(found) == 1, DOWN_SECONDS)
        tell(explained())
        target.call(
            "patch", *where, "--type=merge", "-p", json.dumps({"spec": {"autoscaling": None}})
        )
    return done


def autoscaling(prometheus: str) -> dict[str, Any]:
    """Return the part of the spec that the demo sets."""
    return {
        "minReplicas": 1,
        "maxReplicas": MOST,
        "objectives": [{"metric": "TimeToFirstToken", "percentile": 95, "target": "2s"}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": WINDOW_SECONDS}},
        "prometheus": {"addresses": [prometheus]},
    }


def main() -> int:
    """Run the walk on the demo's model; 0 when replicas followed and nothing failed."""
    parser = argparse.ArgumentParser(prog="demo-autoscaling", description=__doc__)
    parser.add_argument("--cluster", default=settings.Options.cluster)
    name = parser.parse_args().cluster
    mmctl = str(Path(sys.executable).parent / "mmctl")
    try:
        found = cluster.info(name)
        target = Target(found.name, found.kubeconfig, found.kubectl)
        done = walk(target, settings.DEMO_NAMESPACE, settings.MODEL, print, mmctl)
    except DevClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(
        f"replicas went {' -> '.join(map(str, done.replicas))}; {done.answered} requests answered, "
        f"{len(done.failed)} failed, {max(0, done.reversals - 1)} reversals beside the way back"
    )
    return 1 if done.failed else 0


def _note(done: Walk, load: Load) -> None:
    done.answered, done.failed = load.answered, list(load.failed)


def _ready(found: dict[str, Any]) -> int:
    """Return the replicas, once all that were asked for answer; else 0."""
    replicas = int(found["spec"].get("replicas", 1))
    return replicas if (found.get("status") or {}).get("readyReplicas") == replicas else 0


def _follows(found: dict[str, Any]) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "ScalingActive" and one["status"] == "True" for one in conditions)


if __name__ == "__main__":
    sys.exit(main())
