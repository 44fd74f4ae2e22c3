"""The serving pods: one Deployment per model, its pod template recorded with its revision.

Of replicas of several nodes it is a LeaderWorkerSet.
"""

from typing import Any

from mm_api import labels
from mm_api.contract import GATEWAY_PORT
from mm_api.gateway_memory import gateway_bytes
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.children import containers, hardware, pull
from mm_operator.children.group import serving_group
from mm_operator.children.metadata import Manifest
from mm_operator.children.serving_pod import (
    ServingPod,
    component_selector,
    serving_deployment,
    serving_template,
    start_seconds,
)
from mm_operator.children.stock_server import stock_server
from mm_operator.model import Plan, Snapshot
from mm_operator.plan.engine.container_memory import further_bytes
from mm_operator.plan.store import store_of


def build_deployment(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the Deployment once there is a revision to serve.

    While the rollout is held its own template is used, with today's number of replicas.
    """
    template = pod_template(snapshot, spec, plan)
    if template is None:
        return None
    if spec.engine.parallelism.nodes > 1:
        return serving_group(snapshot, spec, template, plan.rollout)
    return serving_deployment(
        snapshot,
        spec,
        template,
        rollout=plan.rollout,
        component=labels.Component.SERVER,
        name=names.deployment(snapshot.name),
        replicas=spec.replicas,
    )


def selector(model: str) -> dict[str, str]:
    """Return the labels that select the serving pods of a model; they never change."""
    return component_selector(model, labels.Component.SERVER)


def pod_template(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> dict[str, Any] | None:
    """Return the pod template of the revision that is served, or None when there is none."""
    rollout = plan.rollout
    if rollout.held:
        live = snapshot.observed.deployment
        return dict(live.template) if live else None
    return fresh_template(snapshot, spec, plan, labels.Component.SERVER)


def fresh_template(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan, component: str
) -> dict[str, Any] | None:
    """Return the pod template of the planned revision, or None when there is none."""
    serving, engine = plan.serving_plan, plan.engine
    if not plan.rollout.serving_hash or serving is None or engine is None:
        return None
    image = snapshot.settings.own_image_of(spec)
    manifest = store_of(spec).manifest(serving.fingerprint)
    gpu = hardware.planned_gpu(spec, engine)
    host = engine.memory.host
    gateway = containers.build_gateway(
        spec,
        image=image,
        manifest=manifest,
        memory_bytes=gateway_bytes(
            serving.gateway,
            encodes=serving.written_by_server,
            features_bytes=serving.features_bytes,
        ),
        server_page=f"127.0.0.1:{serving.vllm_serve.port}" if serving.vllm_serve else None,
        features=serving.features_bytes > 0,
    )
    server = containers.build_server(
        spec,
        image=snapshot.settings.server_image_of(spec),
        manifest=manifest,
        gpu=gpu,
        host_bytes=host.total_bytes + further_bytes(spec),
        memory_limit=host.planned_limit_bytes,
        start_seconds=start_seconds(host.total_bytes),
    )
    if serving.vllm_serve is not None:
        server = stock_server(server, serving.vllm_serve, manifest, snapshot.settings.tracing)
    return serving_template(
        snapshot,
        spec,
        plan.rollout,
        ServingPod(
            component=component,
            containers=[gateway],
            init_containers=[*pull.build_pull(spec, image, serving.fingerprint), server],
            volumes=[
                *containers.auth_volumes(spec),
                *containers.features_volumes(serving.features_bytes),
            ],
            shm_bytes=serving.pools.shm_bytes,
            gpu=gpu,
            scheduling=spec.runtime,
            page_port=GATEWAY_PORT,
        ),
    )
