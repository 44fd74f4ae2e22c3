"""Pods of a new revision beside the stable ones, with a Service of their own for the router.

Name, pods and endpoints carry the revision: those of two canaries are never taken for each other.
"""

from dataclasses import replace

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.children.config_maps import build_serving_config
from mm_operator.children.deployment import fresh_template
from mm_operator.children.device_claims import build_claim_templates
from mm_operator.children.metadata import Manifest
from mm_operator.children.service import service_of
from mm_operator.children.serving_pod import component_selector, serving_deployment
from mm_operator.model import Plan, RolloutDecision, Snapshot, Step


def build_canary(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> tuple[Manifest, ...]:
    """Return claim templates, ConfigMap, Service and Deployment of a canary that has pods."""
    canary = plan.rollout.canary
    if canary is None or not canary.pods:
        return ()
    revision = canary.status.revision
    own = replace(plan, rollout=RolloutDecision(Step.START, "", "", revision, spec_digest=""))
    template = fresh_template(snapshot, spec, own, labels.Component.CANARY)
    if template is None:
        return ()
    mark = {labels.REVISION: names.revision_label(revision)}
    template["metadata"]["labels"].update(mark)
    selector = component_selector(snapshot.name, labels.Component.CANARY) | mark
    name = names.canary(snapshot.name, revision)
    deployment = serving_deployment(
        snapshot,
        spec,
        template,
        rollout=own.rollout,
        component=labels.Component.CANARY,
        name=name,
        replicas=canary.pods,
    )
    deployment["spec"]["selector"] = {"matchLabels": selector}
    service = service_of(
        snapshot, spec, name=name, component=labels.Component.CANARY, selector=selector
    )
    service["metadata"]["labels"].update(mark)
    children = (
        *build_claim_templates(snapshot, spec, own),
        build_serving_config(snapshot, own, template, None),
        service,
        deployment,
    )
    return tuple(child for child in children if child is not None)
