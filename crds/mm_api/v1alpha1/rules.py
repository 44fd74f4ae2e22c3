"""Rules between fields, in CEL: the API server and `mmctl validate` evaluate the same text.

A rule belongs to a type and holds wherever the type is used.
"""

from collections.abc import Mapping
from typing import Final

from mm_api import labels
from mm_api.base import ApiModel
from mm_api.metrics import OBJECTIVE_HISTOGRAMS, buckets_of
from mm_api.public_hosts import ENDS_IN_A_NUMBER, IPV4, NEVER_PUBLIC, PRIVATE_DOMAINS
from mm_api.v1alpha1 import duration
from mm_api.v1alpha1.autoscaling import AutoscalingSpec, Objective
from mm_api.v1alpha1.build import BuildSpec, StoreClaim, StoreSpec
from mm_api.v1alpha1.engine import EngineSpec, Parallelism
from mm_api.v1alpha1.gateway import GatewaySpec
from mm_api.v1alpha1.model import ModelSource, PersistentVolumeClaimSource, S3Source
from mm_api.v1alpha1.pod_rules import LABEL_KEY, POD_RULES, Rule
from mm_api.v1alpha1.resource import MultimodalModel, MultimodalModelSpec
from mm_api.v1alpha1.rollout import RolloutSpec
from mm_api.v1alpha1.runtime import RuntimeSpec
from mm_api.v1alpha1.vision import EncoderAutoscaling, EncoderGpu, VisionSpec

_SERVICE_NAME: Final = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"


def _no_dot_dot(field: str) -> Rule:
    return Rule(
        cel=f"!self.{field}.split('/').exists(part, part == '..')",
        message=f"{field} must stay inside the volume: write it without '..'",
        field=field,
    )


def _at_least_a_second(field: str) -> Rule:
    return Rule(
        cel=f"duration(self.{field}) >= duration('1s')",
        message=f"{field} must be at least 1s: Kubernetes counts full seconds",
        field=field,
    )


def _distinct(field: str, name: str, message: str) -> Rule:

    return Rule(
        cel=f"self.{field}.all(one, self.{field}.exists_one(other, other.{name} == one.{name}))",
        message=message,
        field=field,
    )


def _bounds(metric: str) -> Rule:
    histogram = OBJECTIVE_HISTOGRAMS[metric]
    buckets = buckets_of(histogram)
    least, most = (duration.written(bound) for bound in (buckets[0], buckets[-1]))
    return Rule(
        cel=f"self.metric != '{metric}' || !self.target.matches('{duration.PATTERN}') || "
        f"(duration(self.target) >= duration('{least}') && "
        f"duration(self.target) <= duration('{most}'))",
        message=f"target of {metric} must be from {least} to {most}, the first and last bound of "
        f"{histogram}: whether requests keep another one cannot be seen",
        field="target",
    )


RULES: Final[Mapping[type[ApiModel], tuple[Rule, ...]]] = {
    MultimodalModel: (
        Rule(
            cel=f"self.metadata.name.matches('{_SERVICE_NAME}')",
            message="metadata.name also names the model's Service: use at most 63 of a-z, 0-9 and "
            "'-', beginning with a letter and ending with a letter or digit",
        ),
        Rule(
            cel="!self.metadata.name.endsWith('-encoders')",
            message="metadata.name ends with -encoders, as the pods that encode images for "
            "another model do: use another name",
        ),
        Rule(
            cel="!self.metadata.name.endsWith('-triton')",
            message="metadata.name ends with -triton, as the Service of another model's Triton "
            "does: use another name",
        ),
    ),
    MultimodalModelSpec: (
        Rule(
            cel="!has(self.rollout.drainTimeout) || duration(self.rollout.drainTimeout) >= "
            "duration(self.gateway.requestTimeout) + duration('2s')",
            message="drainTimeout must be at least 2s above gateway.requestTimeout, or requests "
            "are cut off when a pod ends: raise it, lower gateway.requestTimeout, or remove it",
            field="rollout.drainTimeout",
        ),
        Rule(
            cel="!has(self.build.gpu.product) || !has(self.runtime.gpu.product) || "
            "self.build.gpu.product == self.runtime.gpu.product",
            message="build.gpu.product must equal runtime.gpu.product, because an engine runs on "
            "the GPU that built it: make them equal, or remove one",
            field="build.gpu.product",
        ),
        Rule(
            cel="!has(self.build.gpu.resourceName) || !has(self.runtime.gpu.resourceName) || "
            "self.build.gpu.resourceName == self.runtime.gpu.resourceName",
            message="build.gpu.resourceName must equal runtime.gpu.resourceName, because an engine "
            "runs on what built it: make them equal, or remove that of the build",
            field="build.gpu.resourceName",
        ),
        Rule(
            cel="!has(self.build.gpu.resourceName) || !has(self.runtime.gpu.deviceClassName)",
            message="builds claim devices of runtime.gpu.deviceClassName, too: remove "
            "build.gpu.resourceName",
            field="build.gpu.resourceName",
        ),
        Rule(
            cel="!has(self.runtime.gpu.slot) || (has(self.autoscaling) && "
            "self.autoscaling.mode == 'Enforce' && self.autoscaling.engine == 'Builtin' && "
            "self.autoscaling.minReplicas == 0 && self.autoscaling.maxReplicas == 1)",
            message="models of a slot take turns, which neither KEDA nor a HorizontalPodAutoscaler "
            "knows: set autoscaling with mode Enforce, engine Builtin, minReplicas 0 and "
            "maxReplicas 1, or remove runtime.gpu.slot",
            field="runtime.gpu.slot",
        ),
        Rule(
            cel="!has(self.runtime.gpu.slot) || self.rollout.strategy == 'Recreate'",
            message="the GPU of a slot has no place for a second pod: set rollout.strategy to "
            "Recreate, or remove runtime.gpu.slot",
            field="runtime.gpu.slot",
        ),
        Rule(
            cel="!has(self.runtime.gpu.slot) || self.vision.placement == 'Colocated'",
            message="the GPU of a slot has no place for encoders in pods of their own: set "
            "vision.placement to Colocated, or remove runtime.gpu.slot",
            field="runtime.gpu.slot",
        ),
        Rule(
            cel="self.rollout.strategy != 'Canary' || !has(self.autoscaling) || "
            "self.autoscaling.mode != 'Enforce'",
            message="strategy Canary and autoscaling that moves replicas are not supported "
            "together: set autoscaling.mode to Recommend, or strategy to Rolling",
            field="rollout.strategy",
        ),
        Rule(
            cel="!has(self.vision.autoscaling) || !has(self.autoscaling) || "
            "self.autoscaling.engine == 'Builtin'",
            message="encoders are scaled by the operator alone, which KEDA would not see: set "
            "autoscaling.engine to Builtin, or remove vision.autoscaling",
            field="vision.autoscaling",
        ),
        Rule(
            cel="!has(self.gateway.authSecretRef) || !has(self.rollout.canary) || "
            "!has(self.rollout.canary.analysis.answers)",
            message="replays carry no key, which gateway.authSecretRef requires: keep keys at the "
            "router (router.authSecretRef of the chart), or remove answers",
            field="rollout.canary.analysis.answers",
        ),
        Rule(
            cel="self.rollout.strategy != 'Canary' || self.vision.placement == 'Colocated'",
            message="strategy Canary does not try encoders in pods of their own: set "
            "vision.placement to Colocated, or strategy to Rolling",
            field="rollout.strategy",
        ),
        Rule(
            cel="self.engine.parallelism.nodes == 1 || (self.rollout.strategy == 'Rolling' && "
            "!has(self.runtime.gpu.slot))",
            message="replicas of several nodes are replaced one by one: set rollout.strategy to "
            "Rolling (where no GPUs are free, with maxSurge 0 and maxUnavailable 1), and remove "
            "runtime.gpu.slot",
            field="engine.parallelism.nodes",
        ),
        Rule(
            cel="self.engine.parallelism.nodes == 1 || self.vision.placement == 'Colocated'",
            message="features of encoders in pods of their own reach one node alone: set "
            "vision.placement to Colocated, or nodes to 1",
            field="engine.parallelism.nodes",
        ),
    ),
    ModelSource: (
        Rule(
            cel="(has(self.huggingFace) ? 1 : 0) + (has(self.persistentVolumeClaim) ? 1 : 0) + "
            "(has(self.s3) ? 1 : 0) + (has(self.archive) ? 1 : 0) == 1",
            message="set exactly one of huggingFace, persistentVolumeClaim, s3 and archive",
        ),
    ),
    PersistentVolumeClaimSource: (_no_dot_dot("path"),),
    S3Source: (_no_dot_dot("prefix"),),
    StoreClaim: (_no_dot_dot("path"),),
    EngineSpec: (
        _distinct("lora", "name", "adapters need names of their own: change one of them"),
        Rule(
            cel="!has(self.maxInputLen) || !has(self.maxSeqLen) || "
            "self.maxInputLen < self.maxSeqLen",
            message="maxInputLen must be below maxSeqLen, which counts the prompt and the answer: "
            "raise maxSeqLen or lower maxInputLen",
            field="maxInputLen",
        ),
        Rule(
            cel="!has(self.maxNumTokens) || self.maxNumTokens >= self.maxBatchSize",
            message="maxNumTokens must be at least maxBatchSize: every request of a step needs a "
            "token; raise maxNumTokens or lower maxBatchSize",
            field="maxNumTokens",
        ),
        Rule(
            cel="!has(self.maxNumTokens) || !has(self.maxInputLen) || "
            "self.maxNumTokens >= self.maxInputLen",
            message="maxNumTokens must be at least maxInputLen: a prompt is read in one step; "
            "raise maxNumTokens or lower maxInputLen",
            field="maxNumTokens",
        ),
        Rule(
            cel="!has(self.maxVideoFrames) || self.maxImagesPerRequest > 0",
            message="maxVideoFrames needs maxImagesPerRequest above 0: frames are encoded as "
            "images are, and 0 builds no vision engine; raise it, or remove maxVideoFrames",
            field="maxVideoFrames",
        ),
    ),
    Parallelism: (
        Rule(
            cel="self.tensor * self.pipeline % self.nodes == 0",
            message="nodes must divide tensor x pipeline, the number of GPUs of a replica: each "
            "node has an equal part of them",
            field="nodes",
        ),
        Rule(
            cel="self.nodes == oldSelf.nodes",
            message="nodes cannot change: other objects make the pods; delete the model and apply "
            "it again, or make another one beside it",
            field="nodes",
        ),
    ),
    StoreSpec: (
        Rule(
            cel="!has(self.gcAfter) || (!has(self.persistentVolumeClaim) && !has(self.s3))",
            message="gcAfter sweeps the claim that the operator makes; who else uses a claim of "
            "yours or a bucket is not known: remove gcAfter, or persistentVolumeClaim and s3",
            field="gcAfter",
        ),
        Rule(
            cel="!has(self.size) || quantity(string(self.size)).isGreaterThan(quantity('0'))",
            message="size must be above zero, for example 50Gi",
            field="size",
        ),
        Rule(
            cel="has(self.storageClassName) == has(oldSelf.storageClassName) && "
            "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            message="storageClassName cannot change: a claim keeps its class; use a claim of yours "
            "(persistentVolumeClaim), or delete the model and apply it again",
            field="storageClassName",
        ),
        Rule(
            cel="self.accessMode == oldSelf.accessMode",
            message="accessMode cannot change: a claim keeps its modes; use a claim of yours "
            "(persistentVolumeClaim), or a bucket",
            field="accessMode",
        ),
    ),
    BuildSpec: (
        _at_least_a_second("timeout"),
        _at_least_a_second("ttlAfterFinished"),
    ),
    RolloutSpec: (
        _at_least_a_second("progressDeadline"),
        Rule(
            cel="self.strategy != 'Recreate' || (!has(self.maxSurge) && !has(self.maxUnavailable))",
            message="strategy Recreate has no maxSurge and maxUnavailable: remove them, or set "
            "strategy to Rolling",
            field="strategy",
        ),
        Rule(
            cel="has(self.canary) == (self.strategy == 'Canary')",
            message="strategy Canary needs canary.steps, and other strategies have none: set both, "
            "or remove canary",
            field="canary",
        ),
        Rule(
            cel="!has(self.maxSurge) || self.maxSurge > 0 || "
            "(has(self.maxUnavailable) && self.maxUnavailable > 0)",
            message="with maxSurge 0 no pod can be replaced unless one may be missing: set "
            "maxUnavailable to 1 or more, or raise maxSurge",
            field="maxSurge",
        ),
    ),
    GatewaySpec: (
        Rule(
            cel=f"self.allowedHosts.all(host, !host.matches('{ENDS_IN_A_NUMBER}') || "
            f"host.matches('{IPV4}'))",
            message="allowedHosts has an address that is not written as four numbers from 0 to "
            "255, which programs read differently: write it so, for example 8.8.8.8",
            field="allowedHosts",
        ),
        Rule(
            cel=f"self.allowPrivateNetworks || "
            f"!self.allowedHosts.exists(host, host.matches('{NEVER_PUBLIC}'))",
            message="allowedHosts has a host that is never fetched from: private, loopback, "
            "link-local and metadata addresses, names without a dot, and names below "
            f"{', '.join(sorted(PRIVATE_DOMAINS))}. Remove it, or set allowPrivateNetworks",
            field="allowedHosts",
        ),
        _distinct(
            "keyLimits",
            "name",
            "each key may have one entry: merge or remove the others",
        ),
        Rule(
            cel="size(self.keyLimits) == 0 || has(self.authSecretRef)",
            message="keyLimits need authSecretRef: without tokens no request has a key",
            field="keyLimits",
        ),
        Rule(
            cel="quantity(string(self.maxImageBytes)).isGreaterThan(quantity('0'))",
            message="maxImageBytes must be above zero, for example 20Mi",
            field="maxImageBytes",
        ),
        Rule(
            cel="duration(self.fetchTimeout) <= duration(self.requestTimeout)",
            message="fetchTimeout must not be above requestTimeout: fetching is a part of the "
            "request",
            field="fetchTimeout",
        ),
        Rule(
            cel="duration(self.streamKeepAlive) >= duration('1s')",
            message="streamKeepAlive must be at least 1s: more comments than that help no proxy",
            field="streamKeepAlive",
        ),
    ),
    **POD_RULES,
    RuntimeSpec: (
        Rule(
            cel=f"self.podLabels.all(key, key.matches('{LABEL_KEY}'))",
            message="every key of podLabels must be a label key, for example example.org/team",
            field="podLabels",
        ),
        Rule(
            cel=f"!self.podLabels.exists(key, key.startsWith('{labels.PREFIX}/') || "
            "key.startsWith('app.kubernetes.io/'))",
            message=f"keys below {labels.PREFIX}/ and app.kubernetes.io/ are set by the operator: "
            "use another prefix",
            field="podLabels",
        ),
        _distinct(
            "topologySpreadConstraints",
            "topologyKey",
            "each topologyKey may have one constraint: merge or remove the others",
        ),
    ),
    AutoscalingSpec: (
        Rule(
            cel="self.minReplicas <= self.maxReplicas",
            message="minReplicas must not be above maxReplicas, which is 1 where it is absent: "
            "lower minReplicas or raise maxReplicas",
            field="minReplicas",
        ),
        Rule(
            cel="self.minReplicas >= 1 || self.engine == 'Builtin'",
            message="minReplicas 0 needs engine Builtin: KEDA would observe a waiting request a "
            "scrape and a poll later; set engine to Builtin, or minReplicas to 1",
            field="minReplicas",
        ),
        Rule(
            cel="self.minReplicas >= 1 || self.warmReplicas == 0",
            message="warmReplicas are kept without any request, so minReplicas 0 is never reached: "
            "remove warmReplicas, or set minReplicas to 1",
            field="warmReplicas",
        ),
        Rule(
            cel=f"!self.scaleToZeroAfter.matches('{duration.PATTERN}') || "
            "duration(self.scaleToZeroAfter) >= duration('1m')",
            message="scaleToZeroAfter must be at least 1m: metrics show a request up to a minute "
            "late",
            field="scaleToZeroAfter",
        ),
        Rule(
            cel="self.warmReplicas < self.maxReplicas",
            message="warmReplicas must be below maxReplicas: the load itself needs a replica; "
            "lower warmReplicas or raise maxReplicas",
            field="warmReplicas",
        ),
        Rule(
            cel="self.mode == 'Off' || self.minReplicas == self.maxReplicas || "
            "self.maxReplicas == 1 || (has(self.objectives) && size(self.objectives) > 0)",
            message="there is nothing to follow: set objectives, for example TimeToFirstToken with "
            "a target of 500ms, or set mode to Off",
            field="objectives",
        ),
        _distinct(
            "objectives",
            "metric",
            "each metric may have one objective: merge or remove the others",
        ),
        Rule(
            cel="!has(self.fallback) || self.fallback.replicas <= self.maxReplicas",
            message="fallback.replicas must not be above maxReplicas: lower it, or raise "
            "maxReplicas",
            field="fallback",
        ),
    ),
    Objective: (
        Rule(
            # The pattern alone refuses it without saying how it is written.
            cel=f"self.target.matches('{duration.PATTERN}')",
            message="target is not a duration above zero: write for example 500ms, 2s or 1m30s",
            field="target",
        ),
        *(_bounds(metric) for metric in OBJECTIVE_HISTOGRAMS),
    ),
    VisionSpec: (
        Rule(
            cel="self.placement == 'Disaggregated' || (self.replicas == 1 && "
            "!has(self.autoscaling) && !has(self.gpu) && !has(self.nodeSelector) && "
            "(!has(self.resources.requests) || size(self.resources.requests) == 0) && "
            "(!has(self.resources.limits) || size(self.resources.limits) == 0))",
            message="replicas, autoscaling, gpu, nodeSelector and resources are those of encoders "
            "in pods of their own: set placement to Disaggregated, or remove them",
            field="replicas",
        ),
        Rule(
            cel="!has(self.gpu) || self.engine != 'TensorRT'",
            message="an engine of TensorRT runs on the GPU product that built it: remove gpu, or "
            "set engine to Torch",
            field="gpu",
        ),
        Rule(
            cel="!has(self.threadPercentage) || self.sharing != 'TimeSlicing'",
            message="threadPercentage is a share under MPS: set sharing to MPS, or remove it",
            field="threadPercentage",
        ),
    ),
    EncoderGpu: (
        Rule(
            cel="self.count == 1 || !has(self.product)",
            message="count 0 is the processor, which has no GPU product: remove product, or set "
            "count to 1",
            field="count",
        ),
    ),
    EncoderAutoscaling: (
        Rule(
            cel="self.minReplicas <= self.maxReplicas",
            message="minReplicas must not be above maxReplicas: lower it, or raise maxReplicas",
            field="minReplicas",
        ),
    ),
}


def rules_of(kind: type[ApiModel]) -> tuple[Rule, ...]:
    """Return the rules of a type, those of its base types first."""
    return tuple(rule for base in reversed(kind.__mro__) for rule in RULES.get(base, ()))
