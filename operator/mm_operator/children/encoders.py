"""Vision encoders in pods of their own: Deployment, the Service that servers find them by, budget.

They belong to the same revision as the language model's pods and are rolled out with them; how many
there are is no part of a revision.
"""

from typing import Any

from mm_api import labels
from mm_api.contract import GRPC_PORT, METRICS_PORT, Flag
from mm_api.documents.serving_plan import EncoderPlan, ServingPlan
from mm_api.v1alpha1 import MultimodalModelSpec, Scheduling, VisionSpec
from mm_operator import names
from mm_operator.children import containers, hardware, pull
from mm_operator.children.disruption_budget import one_at_a_time
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.children.network import build_network_policy, build_service_of, opened
from mm_operator.children.serving_pod import (
    ServingPod,
    component_selector,
    serving_deployment,
    serving_template,
    start_seconds,
)
from mm_operator.model import EnginePlan, Plan, RolloutDecision, Snapshot
from mm_operator.plan.engine.encoders import encoder_process_bytes, encodes_on_processor
from mm_operator.plan.store import store_of

_ROLE = (Flag.ROLE, "encoder")
_ALONE = (Flag.GATEWAY_PORT, "0")


def encoder_template(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> dict[str, Any] | None:
    """Return the pod template of the revision that is served; None: encoders have no pods."""
    rollout, serving, engine = plan.rollout, plan.serving_plan, plan.engine
    if rollout.held:
        live = snapshot.observed.encoders
        return dict(live.template) if live else None
    if not rollout.serving_hash or serving is None or serving.encoders is None or engine is None:
        return None
    return serving_template(
        snapshot,
        spec,
        rollout,
        _pod(snapshot, spec, serving, serving.encoders, engine),
    )


def _pod(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    serving: ServingPlan,
    encoders: EncoderPlan,
    engine: EnginePlan,
) -> ServingPod:
    image = snapshot.settings.own_image_of(spec)
    gpu = hardware.encoder_gpu(spec, engine)
    memory = engine.memory.encoder
    assert memory is not None  # noqa: S101  # called where there are encoders
    # With a GPU the engine is read into host memory before it is copied there.
    read_bytes = memory.vision_bytes + memory.feature_cache_bytes
    server = containers.build_server(
        spec,
        image=image,
        manifest=store_of(spec).manifest(serving.fingerprint),
        gpu=gpu,
        host_bytes=read_bytes,
        memory_limit=memory.planned_limit_bytes,
        start_seconds=start_seconds(read_bytes),
        process_bytes=encoder_process_bytes(spec, on_gpu=gpu.count > 0),
        resources=spec.vision.resources,
        role=(*_ROLE, *_ALONE),
        # Scrapers find the one page of a pod by the name of its port.
        listening=containers.Listening("http", ("triton-grpc",)),
    )
    # A sidecar's restart policy is that of a container beside others; alone it is the pod's.
    encoder = {key: value for key, value in server.items() if key != "restartPolicy"}
    return ServingPod(
        component=labels.Component.ENCODER,
        containers=[encoder | {"name": "encoder"}],
        init_containers=pull.build_pull(
            spec,
            image,
            serving.fingerprint,
            _ROLE,
        ),
        volumes=[],
        shm_bytes=encoders.pools.shm_bytes,
        gpu=gpu,
        scheduling=_scheduling(spec),
        page_port=METRICS_PORT,
    )


def _scheduling(spec: MultimodalModelSpec) -> Scheduling:
    """Return where encoders may run: beside servers, but for what hardware of their own changes."""
    changes: dict[str, Any] = {}
    if spec.vision.node_selector is not None:
        changes["node_selector"] = spec.vision.node_selector
    if encodes_on_processor(spec):  # nodes without GPUs have no runtime class for them
        changes["runtime_class_name"] = None
    return spec.runtime.model_copy(update=changes)


def build_encoders(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    rollout: RolloutDecision,
    template: dict[str, Any] | None,
) -> tuple[Manifest, ...]:
    """Return policy, Service, Deployment and, of several, the budget of encoders."""
    if template is None:
        return ()
    name, replicas = names.encoders(snapshot.name), _replicas(snapshot, spec.vision)
    component = labels.Component.ENCODER
    selected = component_selector(snapshot.name, component)
    service = build_service_of(
        own_metadata(snapshot, name=name, component=component),
        selected,
        {"triton-grpc": GRPC_PORT},
        # Headless: servers choose the encoder by the image, so they need every address.
        clusterIP="None",
    )
    servers = component_selector(snapshot.name, labels.Component.SERVER)
    policy = build_network_policy(
        own_metadata(snapshot, name=name, component=component),
        selected,
        [
            opened([METRICS_PORT]),
            opened([GRPC_PORT], [{"podSelector": {"matchLabels": servers}}]),
        ],
    )
    deployment = serving_deployment(
        snapshot,
        spec,
        template,
        rollout=rollout,
        component=component,
        name=name,
        replicas=replicas if spec.replicas else 0,  # nothing to encode for
    )
    if replicas == 1:  # nothing would be kept: the only pod may be evicted
        return policy, service, deployment
    budget = one_at_a_time(own_metadata(snapshot, name=name, component=component), selected)
    return policy, service, deployment, budget


def _replicas(snapshot: Snapshot, vision: VisionSpec) -> int:
    """Return how many the autoscaler wants; until it has said so, how many there are."""
    bounds, view, live = vision.autoscaling, snapshot.encoder_scaling, snapshot.observed.encoders
    if bounds is None:
        return vision.replicas
    known = (view.status.desired if view else 0) or (live.wanted if live else 0)
    return min(max(known or vision.replicas, bounds.min_replicas), bounds.max_replicas)
