"""PURE: on which nodes the image of a model is pulled before a pod needs it.

A node is given one Job for an image; while that Job exists, which is a day after its end, there is
no other one for it, whatever became of it: a node that cannot pull, or that removes images because
its disk is full, is left alone for that time.
"""

from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.model import (
    LOOK_SECONDS,
    EnginePlan,
    ImageNeed,
    ImageNode,
    ImageNodes,
    JobPhase,
    JobState,
    PrePull,
    RolloutDecision,
    Snapshot,
)
from mm_operator.plan.rollout_way import need_of

_WORKS = (JobPhase.PENDING, JobPhase.RUNNING)


def decide_pre_pull(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    engine: EnginePlan | None,
    rollout: RolloutDecision,
) -> PrePull:
    """Return what is pulled once it is known which image the pods have."""
    if spec.runtime.pre_pull is None or rollout.held or not rollout.serving_hash or engine is None:
        return PrePull()
    need, found = _need(snapshot, spec, engine), snapshot.image_nodes
    age = (snapshot.now - found.looked_at).total_seconds() if found else LOOK_SECONDS
    if found is None or found.need != need or age >= LOOK_SECONDS:
        return PrePull(look=need)
    due = LOOK_SECONDS - max(0.0, age)
    if found.problem:
        return PrePull(message=found.problem, due_in=due)
    jobs = {
        node.name: job
        for node in found.nodes
        if not node.has
        and (
            job := snapshot.observed.jobs.get(names.pull_job(snapshot.name, node.name, need.image))
        )
    }
    working = sum(job.phase in _WORKS for job in jobs.values())
    waiting = [node.name for node in found.nodes if not node.has and node.name not in jobs]
    starting = waiting[: max(0, spec.runtime.pre_pull.nodes_at_once - working)]
    return PrePull(
        start={node: names.pull_job(snapshot.name, node, need.image) for node in starting},
        keep=tuple(sorted(job.name for job in jobs.values())),
        message=_message(found, jobs, working + len(starting)),
        due_in=due,
    )


def _need(snapshot: Snapshot, spec: MultimodalModelSpec, engine: EnginePlan) -> ImageNeed:
    gpus = need_of(spec, engine)
    # A claim for devices names its product itself; nodes need no label then.
    labelled = gpus is not None and spec.runtime.gpu.device_class_name is None
    return ImageNeed(
        image=snapshot.settings.server_image_of(spec),
        node_labels=gpus.node_labels if gpus and labelled else dict(spec.runtime.node_selector),
        tolerations=tuple(spec.runtime.tolerations),
    )


def _message(found: ImageNodes, jobs: dict[str, JobState], working: int) -> str:
    def is_there(node: ImageNode) -> bool:
        job = jobs.get(node.name)
        return bool(node.has) or (job is not None and job.phase is JobPhase.SUCCEEDED)

    there = sum(map(is_there, found.nodes))
    failed = sum(job.phase is JobPhase.FAILED for job in jobs.values())
    unknown = sum(node.has is None and node.name not in jobs for node in found.nodes)
    why = next((job.waiting for job in jobs.values() if job.phase in _WORKS and job.waiting), "")
    parts = [f"the image is on {there} of {len(found.nodes)} nodes that take the pods"]
    if working:
        parts.append(f"{working} pull it now{f' ({why})' if why else ''}")
    if failed:
        parts.append(f"{failed} could not pull it, and do not try again for a day")
    if unknown:
        parts.append(f"of {unknown} it is not known, because a node lists 50 images at most")
    if found.more:
        parts.append(f"{found.more} more nodes are left to their first pod")
    return "; ".join(parts)
