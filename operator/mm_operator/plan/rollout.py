"""Which revision the pods get, and how far they are.

A revision is the serving plan with everything else that goes into a pod. While the engine of the
current plan is not there, the pods keep the recorded revision: serving continues.
"""

from dataclasses import replace
from math import ceil

from mm_api.conditions import Reason
from mm_api.sentences import joined
from mm_api.v1alpha1 import MultimodalModelSpec, TritonSpec, duration
from mm_api.v1alpha1.network import NetworkSpec
from mm_operator.digests import digest, plain, stated
from mm_operator.model import BuildDecision, DeploymentState, RolloutDecision, Snapshot, Step
from mm_operator.plan.canary_rollout import (
    beside_a_canary,
    canary_of,
    finished_canary,
    is_under_way,
    unsupported,
    was_sent_back,
)
from mm_operator.plan.engine.encoders import is_disaggregated
from mm_operator.plan.engine_plan import WantedEngine
from mm_operator.plan.rollout_progress import first_obstacle, starts_in_progress
from mm_operator.plan.rollout_turns import (
    by_turns,
    rolls_by_turns,
    spec_digest,
    waiting_for_its_turn,
)

HASH_DIGITS = 32
"""Digits of a revision's hash: short enough for a label, long enough never to collide."""


def serving_hash(snapshot: Snapshot, spec: MultimodalModelSpec, wanted: WantedEngine) -> str:
    """Return the digest of everything that makes pods differ; replicas do not."""
    # Who may connect to Triton, and who takes turns with it, change nothing in a pod.
    gpu = spec.runtime.gpu.model_copy(update={"slot": None})
    runtime = spec.runtime.model_copy(
        update={"triton": TritonSpec(expose=spec.runtime.triton.expose), "gpu": gpu}
    )
    content: dict[str, object] = {
        "serving": plain(wanted.plan.serving_plan),
        "engine": wanted.config,
        "runtime": stated(runtime),
        "gateway": stated(spec.gateway),
        "drainSeconds": drain_seconds(spec),
        # How long unused engines stay changes nothing in a pod.
        "store": stated(spec.build.store.model_copy(update={"gc_after": None})),
        "image": snapshot.settings.server_image_of(spec),
    }
    if not spec.engine.traits.supervised:
        content["gatewayImage"] = snapshot.settings.own_image_of(spec)
    if not spec.runtime.image_pull_secrets and snapshot.settings.image_pull_secrets:
        content["pullSecrets"] = list(snapshot.settings.image_pull_secrets)
    network = spec.network.over(snapshot.settings.network).of_pods
    if network != NetworkSpec():
        content["network"] = stated(network)
    if snapshot.settings.tracing is not None:
        content["tracing"] = plain(snapshot.settings.tracing)
    if snapshot.settings.user_ids_of(spec) == "Namespace":
        content["userIds"] = "Namespace"
    if not snapshot.settings.scrape_annotations:
        content["scrapeAnnotations"] = False
    if is_disaggregated(spec):
        content["encoder"] = stated(spec.vision.resources)
        own, nodes = spec.vision.gpu, spec.vision.node_selector
        if own is not None or nodes is not None:
            content["encoderHardware"] = [own and plain(own), nodes]
    return digest(content)[:HASH_DIGITS]


def drain_seconds(spec: MultimodalModelSpec) -> int:
    """Return how long a pod may take to finish its requests, in seconds, rounded up."""
    requested = spec.rollout.drain_timeout
    if requested is not None:
        return ceil(duration.parse(requested).total_seconds())
    longest = duration.parse(spec.gateway.request_timeout) + duration.DRAIN_MARGIN
    return ceil(longest.total_seconds())


def decide_rollout(
    snapshot: Snapshot, spec: MultimodalModelSpec, wanted: WantedEngine | None, build: BuildDecision
) -> RolloutDecision:
    """Return what becomes of the pods."""
    deployment = snapshot.observed.deployment
    if wanted is not None and build.step is Step.DONE:
        return _with_an_engine(snapshot, spec, wanted)
    if deployment is None:
        return RolloutDecision(
            Step.WAITING, Reason.WAITING_FOR_ENGINE, "pods are created once the engine is built"
        )
    return _follow(snapshot, spec, deployment, held=True)


def _with_an_engine(
    snapshot: Snapshot, spec: MultimodalModelSpec, wanted: WantedEngine
) -> RolloutDecision:
    deployment = snapshot.observed.deployment
    revision = serving_hash(snapshot, spec, wanted)
    started = RolloutDecision(
        Step.START,
        Reason.ROLLOUT_IN_PROGRESS,
        "pods are being created",
        revision,
        spec_digest=spec_digest(spec),
    )
    if deployment is None:
        return started
    if deployment.serving_hash != revision:
        waiting = waiting_for_its_turn(snapshot, spec, deployment)
        if waiting and not is_under_way(snapshot, revision):
            return _waiting(_follow(snapshot, spec, deployment, held=True), waiting)
        tried = spec.replicas or was_sent_back(snapshot, revision)
        if spec.rollout.canary is not None and tried:
            engine = wanted.plan.build_plan.fingerprint
            canary = canary_of(snapshot, spec, spec.rollout.canary, revision, engine)
            if canary is None or not canary.replaces:
                followed = _follow(snapshot, spec, deployment, held=True)
                problem = unsupported(snapshot, spec.rollout.canary)
                return beside_a_canary(followed, canary, problem)
            started = replace(started, canary=canary)
        return replace(started, by_turns=by_turns(snapshot, spec, deployment))
    followed = _follow(snapshot, spec, deployment, held=False)
    canary = finished_canary(snapshot, spec, revision, complete=followed.complete)
    return replace(followed, spec_digest=started.spec_digest, canary=canary)


def _waiting(followed: RolloutDecision, waiting: tuple[Reason, str]) -> RolloutDecision:
    """Return that the former revision stays; what is wrong with its own pods comes first."""
    reason, message = waiting
    if not followed.complete:
        message = joined(followed.message, message)
        return replace(followed, message=message, waits_for_turn=True)
    return replace(followed, step=Step.WAITING, reason=reason, message=message, waits_for_turn=True)


def _follow(
    snapshot: Snapshot, spec: MultimodalModelSpec, deployment: DeploymentState, *, held: bool
) -> RolloutDecision:
    followed = _progress(snapshot, spec, deployment, held=held)
    return replace(
        followed,
        spec_digest=deployment.spec_digest,
        by_turns=rolls_by_turns(deployment, complete=followed.complete),
    )


def _progress(
    snapshot: Snapshot, spec: MultimodalModelSpec, deployment: DeploymentState, *, held: bool
) -> RolloutDecision:
    current = deployment.serving_hash
    if _complete(deployment, spec.replicas):
        text = (
            "the former revision serves until the new engine is built"
            if held
            else "every replica runs the wanted revision"
        )
        return RolloutDecision(
            Step.DONE, Reason.ROLLOUT_COMPLETE, text, current, held=held, complete=True
        )
    obstacle = first_obstacle(deployment, snapshot.observed.group_pods)
    if obstacle:
        reason, message = obstacle
        return RolloutDecision(Step.RUNNING, reason, message, current, held=held)
    answering = f"{deployment.available} of {spec.replicas} replicas of the revision answer"
    starts = starts_in_progress(deployment, snapshot.observed.pods)
    return RolloutDecision(
        Step.RUNNING,
        Reason.PODS_STARTING,
        joined(answering, starts),
        current,
        held=held,
    )


def still_rolls_by_turns(deployment: DeploymentState | None) -> bool:
    """Return whether pods are being replaced in a turn, whatever the spec says by now."""
    if deployment is None:
        return False
    return rolls_by_turns(deployment, complete=_complete(deployment, deployment.wanted))


def _complete(deployment: DeploymentState, wanted: int) -> bool:
    counts = {deployment.wanted, deployment.replicas, deployment.updated, deployment.available}
    return deployment.observed_generation >= deployment.generation and counts == {wanted}
