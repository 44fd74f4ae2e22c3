"""Rules between fields: each once as CEL for the API server and once in Python for `validate`.

A rule stands on a type and holds wherever the type is used. Tests run good and bad examples
through both forms, the CEL on a real API server, so the two cannot drift apart.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from mm_api import labels
from mm_api.base import ApiModel
from mm_api.v1alpha1 import cron, duration, quantity
from mm_api.v1alpha1.autoscaling import AutoscalingSpec, Objective, Schedule
from mm_api.v1alpha1.build import BuildSpec, StoreClaim, StoreSpec
from mm_api.v1alpha1.engine import EngineSpec
from mm_api.v1alpha1.gateway import GatewaySpec
from mm_api.v1alpha1.host_rules import HOST_RULES
from mm_api.v1alpha1.metric_rules import METRIC_RULES
from mm_api.v1alpha1.model import HubCache, ModelSource, PersistentVolumeClaimSource, S3Source
from mm_api.v1alpha1.pod_rules import LABEL_KEY, POD_RULES, keys_are_labels
from mm_api.v1alpha1.prometheus import PrometheusSpec
from mm_api.v1alpha1.resource import MultimodalModel, MultimodalModelSpec
from mm_api.v1alpha1.rollout import RolloutSpec
from mm_api.v1alpha1.rule import Rule
from mm_api.v1alpha1.runtime import RuntimeSpec
from mm_api.v1alpha1.vision import VisionSpec

_SERVICE_NAME: Final = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
_METRIC_LABEL: Final = r"^[a-zA-Z_][a-zA-Z0-9_]*$"
_SECOND: Final = duration.parse("1s")
_SEVERAL: Final = 2


def _no_dot_dot(field: str) -> Rule:
    return Rule(
        cel=f"!self.{field}.split('/').exists(part, part == '..')",
        message=f"{field} must stay inside the volume: write it without '..'",
        holds=lambda spec: ".." not in getattr(spec, field).split("/"),
        field=field,
    )


def _at_least_a_second(field: str, attribute: str) -> Rule:
    return Rule(
        cel=f"duration(self.{field}) >= duration('1s')",
        message=f"{field} must be at least 1s: Kubernetes counts full seconds",
        holds=lambda spec: duration.parse(getattr(spec, attribute)) >= _SECOND,
        field=field,
    )


def _one_source(source: ModelSource) -> bool:
    given = (source.hugging_face, source.persistent_volume_claim, source.s3)
    return sum(item is not None for item in given) == 1


def _input_below_sequence(engine: EngineSpec) -> bool:
    if engine.max_input_len is None or engine.max_seq_len is None:
        return True
    return engine.max_input_len < engine.max_seq_len


def _prompt_fits_a_step(engine: EngineSpec) -> bool:
    if engine.max_num_tokens is None or engine.max_input_len is None:
        return True
    return engine.max_num_tokens >= engine.max_input_len


def _follows_something(spec: AutoscalingSpec) -> bool:
    followed = (*spec.objectives, *spec.schedules, *filter(None, [spec.custom_query]))
    return bool(followed) or spec.mode == "Off" or spec.min_replicas == spec.max_replicas


def _distinct(field: str, name: str, attribute: str, message: str) -> Rule:
    def holds(spec: AutoscalingSpec) -> bool:
        items = getattr(spec, attribute)
        return len({getattr(one, name) for one in items}) == len(items)

    return Rule(
        cel=f"self.{field}.all(one, self.{field}.exists_one(other, other.{name} == one.{name}))",
        message=message,
        holds=holds,
        field=field,
    )


def _encoders_have_pods(vision: VisionSpec) -> bool:
    configured = vision.replicas != 1 or vision.resources.requests or vision.resources.limits
    return vision.placement == "Disaggregated" or not configured


def _requests_end_before_the_pod(spec: MultimodalModelSpec) -> bool:
    drain = spec.rollout.drain_timeout
    least = duration.parse(spec.gateway.request_timeout) + duration.DRAIN_MARGIN
    return drain is None or duration.parse(drain) >= least


def _one_gpu_product(spec: MultimodalModelSpec) -> bool:
    return len({spec.build.gpu.product, spec.runtime.gpu.product} - {None}) < _SEVERAL


def _one_gpu_resource(spec: MultimodalModelSpec) -> bool:
    return len({spec.build.gpu.resource_name, spec.runtime.gpu.resource_name} - {None}) < _SEVERAL


def _one_way_to_gpus(spec: MultimodalModelSpec) -> bool:
    return spec.runtime.gpu.device_class_name is None or spec.build.gpu.resource_name is None


def _each_once(keys: Iterable[str]) -> bool:
    listed = list(keys)
    return len(set(listed)) == len(listed)


def _own_labels_untouched(runtime: RuntimeSpec) -> bool:
    taken = (f"{labels.PREFIX}/", "app.kubernetes.io/")
    return not any(key.startswith(taken) for key in runtime.pod_labels)


RULES: Final[Mapping[type[ApiModel], tuple[Rule, ...]]] = {
    MultimodalModel: (
        Rule(
            cel=f"self.metadata.name.matches('{_SERVICE_NAME}')",
            message="metadata.name also names the model's Service: use at most 63 of a-z, 0-9 and "
            "'-', beginning with a letter and ending with a letter or digit",
            holds=lambda model: bool(
                re.fullmatch(_SERVICE_NAME, str(model.metadata.get("name", "")), re.ASCII)
            ),
        ),
        Rule(
            cel="!self.metadata.name.endsWith('-encoders')",
            message="metadata.name ends with -encoders, as the pods that encode images for "
            "another model do: use another name",
            holds=lambda model: not str(model.metadata.get("name", "")).endswith("-encoders"),
        ),
        Rule(
            cel="!self.metadata.name.endsWith('-triton')",
            message="metadata.name ends with -triton, as the Service of another model's Triton "
            "does: use another name",
            holds=lambda model: not str(model.metadata.get("name", "")).endswith("-triton"),
        ),
    ),
    MultimodalModelSpec: (
        Rule(
            cel="self.gateway.enabled || self.runtime.maxQueueSize > 0",
            message="without a gateway runtime.maxQueueSize must be at least 1: an endless queue "
            "lets in more requests than any CUDA pool holds",
            holds=lambda spec: spec.gateway.enabled or spec.runtime.max_queue_size > 0,
            field="runtime.maxQueueSize",
        ),
        Rule(
            cel="!has(self.rollout.drainTimeout) || duration(self.rollout.drainTimeout) >= "
            "duration(self.gateway.requestTimeout) + duration('2s')",
            message="drainTimeout must be at least 2s above gateway.requestTimeout, or requests "
            "are cut off when a pod ends: raise it, lower gateway.requestTimeout, or remove it",
            holds=_requests_end_before_the_pod,
            field="rollout.drainTimeout",
        ),
        Rule(
            cel="!has(self.build.gpu.product) || !has(self.runtime.gpu.product) || "
            "self.build.gpu.product == self.runtime.gpu.product",
            message="build.gpu.product must equal runtime.gpu.product, because an engine runs on "
            "the GPU that built it: make them equal, or remove one",
            holds=_one_gpu_product,
            field="build.gpu.product",
        ),
        Rule(
            cel="!has(self.build.gpu.resourceName) || !has(self.runtime.gpu.resourceName) || "
            "self.build.gpu.resourceName == self.runtime.gpu.resourceName",
            message="build.gpu.resourceName must equal runtime.gpu.resourceName, because an engine "
            "runs on what built it: make them equal, or remove that of the build",
            holds=_one_gpu_resource,
            field="build.gpu.resourceName",
        ),
        Rule(
            cel="!has(self.build.gpu.resourceName) || !has(self.runtime.gpu.deviceClassName)",
            message="builds claim devices of runtime.gpu.deviceClassName, too: remove "
            "build.gpu.resourceName",
            holds=_one_way_to_gpus,
            field="build.gpu.resourceName",
        ),
    ),
    ModelSource: (
        Rule(
            cel="(has(self.huggingFace) ? 1 : 0) + (has(self.persistentVolumeClaim) ? 1 : 0) + "
            "(has(self.s3) ? 1 : 0) == 1",
            message="set exactly one of huggingFace, persistentVolumeClaim and s3",
            holds=_one_source,
        ),
    ),
    PersistentVolumeClaimSource: (_no_dot_dot("path"),),
    HubCache: (_no_dot_dot("path"),),
    S3Source: (_no_dot_dot("prefix"),),
    StoreClaim: (_no_dot_dot("path"),),
    EngineSpec: (
        _distinct("lora", "name", "lora", "adapters need names of their own: change one of them"),
        Rule(
            cel="!has(self.maxInputLen) || !has(self.maxSeqLen) || "
            "self.maxInputLen < self.maxSeqLen",
            message="maxInputLen must be below maxSeqLen, which counts the prompt and the answer: "
            "raise maxSeqLen or lower maxInputLen",
            holds=_input_below_sequence,
            field="maxInputLen",
        ),
        Rule(
            cel="!has(self.maxNumTokens) || self.maxNumTokens >= self.maxBatchSize",
            message="maxNumTokens must be at least maxBatchSize: every request of a step needs a "
            "token; raise maxNumTokens or lower maxBatchSize",
            holds=lambda engine: (
                (engine.max_num_tokens or engine.max_batch_size) >= engine.max_batch_size
            ),
            field="maxNumTokens",
        ),
        Rule(
            cel="!has(self.maxNumTokens) || !has(self.maxInputLen) || "
            "self.maxNumTokens >= self.maxInputLen",
            message="maxNumTokens must be at least maxInputLen: a prompt is read in one step; "
            "raise maxNumTokens or lower maxInputLen",
            holds=_prompt_fits_a_step,
            field="maxNumTokens",
        ),
        Rule(
            cel="!has(self.maxVideoFrames) || self.maxImagesPerRequest > 0",
            message="maxVideoFrames needs maxImagesPerRequest above 0: frames are encoded as "
            "images are, and 0 builds no vision engine; raise it, or remove maxVideoFrames",
            holds=lambda engine: (
                engine.max_video_frames is None or engine.max_images_per_request > 0
            ),
            field="maxVideoFrames",
        ),
    ),
    StoreSpec: (
        Rule(
            cel="!has(self.size) || quantity(string(self.size)).isGreaterThan(quantity('0'))",
            message="size must be above zero, for example 50Gi",
            holds=lambda store: store.size is None or quantity.number_of(store.size) > 0,
            field="size",
        ),
        Rule(
            cel="has(self.storageClassName) == has(oldSelf.storageClassName) && "
            "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            message="storageClassName cannot change: a claim keeps its class; use a claim of yours "
            "(persistentVolumeClaim), or delete the model and apply it again",
            holds=None,
            field="storageClassName",
        ),
        Rule(
            cel="self.accessMode == oldSelf.accessMode",
            message="accessMode cannot change: a claim keeps its modes; use a claim of yours "
            "(persistentVolumeClaim), or a bucket",
            holds=None,
            field="accessMode",
        ),
    ),
    BuildSpec: (
        _at_least_a_second("timeout", "timeout"),
        _at_least_a_second("ttlAfterFinished", "ttl_after_finished"),
    ),
    RolloutSpec: (
        _at_least_a_second("progressDeadline", "progress_deadline"),
        Rule(
            cel="self.strategy == 'Rolling' || (!has(self.maxSurge) && !has(self.maxUnavailable))",
            message="maxSurge and maxUnavailable are those of strategy Rolling: remove them, or "
            "set strategy to Rolling",
            holds=lambda rollout: (
                rollout.strategy == "Rolling"
                or (rollout.max_surge is None and rollout.max_unavailable is None)
            ),
            field="strategy",
        ),
        Rule(
            cel="!has(self.maxSurge) || self.maxSurge > 0 || "
            "(has(self.maxUnavailable) && self.maxUnavailable > 0)",
            message="with maxSurge 0 no pod can be replaced unless one may be missing: set "
            "maxUnavailable to 1 or more, or raise maxSurge",
            holds=lambda rollout: rollout.max_surge != 0 or bool(rollout.max_unavailable),
            field="maxSurge",
        ),
    ),
    GatewaySpec: (
        *HOST_RULES,
        _distinct(
            "keyLimits",
            "name",
            "key_limits",
            "each key may have one entry: merge or remove the others",
        ),
        Rule(
            cel="size(self.keyLimits) == 0 || has(self.authSecretRef)",
            message="keyLimits need authSecretRef: without tokens no request has a key",
            holds=lambda gateway: not gateway.key_limits or gateway.auth_secret_ref is not None,
            field="keyLimits",
        ),
        Rule(
            cel="quantity(string(self.maxImageBytes)).isGreaterThan(quantity('0'))",
            message="maxImageBytes must be above zero, for example 20Mi",
            holds=lambda gateway: quantity.number_of(gateway.max_image_bytes) > 0,
            field="maxImageBytes",
        ),
        Rule(
            cel="duration(self.fetchTimeout) <= duration(self.requestTimeout)",
            message="fetchTimeout must not be above requestTimeout: fetching is a part of the "
            "request",
            holds=lambda gateway: (
                duration.parse(gateway.fetch_timeout) <= duration.parse(gateway.request_timeout)
            ),
            field="fetchTimeout",
        ),
        Rule(
            cel="duration(self.streamKeepAlive) >= duration('1s')",
            message="streamKeepAlive must be at least 1s: more comments than that help no proxy",
            holds=lambda gateway: duration.parse(gateway.stream_keep_alive).total_seconds() >= 1,
            field="streamKeepAlive",
        ),
    ),
    **POD_RULES,
    RuntimeSpec: (
        Rule(
            cel=f"self.podLabels.all(key, key.matches('{LABEL_KEY}'))",
            message="every key of podLabels must be a label key, for example example.org/team",
            holds=lambda runtime: keys_are_labels(runtime.pod_labels),
            field="podLabels",
        ),
        Rule(
            cel=f"!self.podLabels.exists(key, key.startsWith('{labels.PREFIX}/') || "
            "key.startsWith('app.kubernetes.io/'))",
            message=f"keys below {labels.PREFIX}/ and app.kubernetes.io/ are set by the operator: "
            "use another prefix",
            holds=_own_labels_untouched,
            field="podLabels",
        ),
        Rule(
            cel="self.topologySpreadConstraints.all(one, self.topologySpreadConstraints"
            ".exists_one(other, other.topologyKey == one.topologyKey))",
            message="each topologyKey may have one constraint: merge or remove the others",
            holds=lambda runtime: _each_once(
                one.topology_key for one in runtime.topology_spread_constraints
            ),
            field="topologySpreadConstraints",
        ),
    ),
    AutoscalingSpec: (
        *METRIC_RULES[AutoscalingSpec],
        Rule(
            cel="self.minReplicas <= self.maxReplicas",
            message="minReplicas must not be above maxReplicas, which is 1 where it is absent: "
            "lower minReplicas or raise maxReplicas",
            holds=lambda bounds: bounds.min_replicas <= bounds.max_replicas,
            field="minReplicas",
        ),
        Rule(
            cel="self.minReplicas >= 1",
            message="minReplicas must be at least 1: nothing holds requests while no pod runs; "
            "write 1 or more, or remove it",
            holds=lambda bounds: bounds.min_replicas >= 1,
            field="minReplicas",
        ),
        Rule(
            cel="self.warmReplicas < self.maxReplicas",
            message="warmReplicas must be below maxReplicas: the load itself needs a replica; "
            "lower warmReplicas or raise maxReplicas",
            holds=lambda bounds: bounds.warm_replicas < bounds.max_replicas,
            field="warmReplicas",
        ),
        Rule(
            cel="self.mode == 'Off' || self.minReplicas == self.maxReplicas || "
            "has(self.customQuery) || (has(self.objectives) && size(self.objectives) > 0) || "
            "(has(self.schedules) && size(self.schedules) > 0)",
            message="there is nothing to follow: set objectives, for example TimeToFirstToken with "
            "a target of 500ms, or set mode to Off",
            holds=_follows_something,
            field="objectives",
        ),
        _distinct(
            "objectives",
            "metric",
            "objectives",
            "each metric may have one objective: merge or remove the others",
        ),
        _distinct(
            "schedules",
            "name",
            "schedules",
            "each schedule needs a name of its own: rename or remove the others",
        ),
        Rule(
            cel="self.schedules.all(one, one.minReplicas <= self.maxReplicas)",
            message="minReplicas of a schedule must not be above maxReplicas: lower it, or raise "
            "maxReplicas",
            holds=lambda bounds: all(
                one.min_replicas <= bounds.max_replicas for one in bounds.schedules
            ),
            field="schedules",
        ),
        Rule(
            cel="!has(self.fallback) || self.fallback.replicas <= self.maxReplicas",
            message="fallback.replicas must not be above maxReplicas: lower it, or raise "
            "maxReplicas",
            holds=lambda bounds: (
                bounds.fallback is None or bounds.fallback.replicas <= bounds.max_replicas
            ),
            field="fallback",
        ),
    ),
    Objective: (
        Rule(
            # The pattern alone refuses it without saying how it is written.
            cel=f"self.target.matches('{duration.PATTERN}')",
            message="target is not a duration above zero: write for example 500ms, 2s or 1m30s",
            holds=None,
            field="target",
        ),
        *METRIC_RULES[Objective],
    ),
    Schedule: (
        Rule(
            cel=f"self.start.matches('{cron.PATTERN}')",
            message="start is not a cron line: write minute (0-59), hour (0-23), day of month "
            "(1-31), month (1-12 or JAN) and day of week (0-7 or SUN), for example 0 8 * * 1-5",
            holds=lambda schedule: cron.is_cron(schedule.start),
            field="start",
        ),
        Rule(
            cel=cron.ORDERED_CEL,
            message="a range of start goes downward: write its smaller end first, or two ranges, "
            "for example 22-23,0-6 instead of 22-6",
            holds=lambda schedule: cron.is_ordered(schedule.start),
            field="start",
        ),
    ),
    VisionSpec: (
        Rule(
            cel="self.placement == 'Disaggregated' || (self.replicas == 1 && "
            "(!has(self.resources.requests) || size(self.resources.requests) == 0) && "
            "(!has(self.resources.limits) || size(self.resources.limits) == 0))",
            message="replicas and resources are those of encoders in pods of their own: set "
            "placement to Disaggregated, or remove them",
            holds=_encoders_have_pods,
            field="replicas",
        ),
        Rule(
            cel="!has(self.threadPercentage) || self.sharing != 'TimeSlicing'",
            message="threadPercentage is a share under MPS: set sharing to MPS, or remove it",
            holds=lambda vision: (
                vision.thread_percentage is None or vision.sharing != "TimeSlicing"
            ),
            field="threadPercentage",
        ),
        Rule(
            cel="!has(self.imagesPerSecond) || "
            "(self.sharing != 'TimeSlicing' && self.placement == 'Colocated')",
            message="imagesPerSecond plans the share of a GPU that the encoder has under MPS "
            "beside the language model: remove it, or set sharing to Auto and placement to "
            "Colocated",
            holds=lambda vision: (
                vision.images_per_second is None
                or (vision.sharing != "TimeSlicing" and vision.placement == "Colocated")
            ),
            field="imagesPerSecond",
        ),
    ),
    PrometheusSpec: (
        Rule(
            cel=f"self.matchLabels.all(name, name.matches('{_METRIC_LABEL}'))",
            message="every name in matchLabels must be a Prometheus label, for example cluster",
            holds=lambda spec: all(
                re.fullmatch(_METRIC_LABEL, name, re.ASCII) for name in spec.match_labels
            ),
            field="matchLabels",
        ),
        Rule(
            cel="!(has(self.tokenSecretRef) && has(self.basicAuthSecretRef))",
            message="tokenSecretRef and basicAuthSecretRef exclude each other: remove one of them",
            holds=lambda spec: spec.token_secret_ref is None or spec.basic_auth_secret_ref is None,
        ),
    ),
}


def rules_of(kind: type[ApiModel]) -> tuple[Rule, ...]:
    """Return the rules of a type, those of its base types first."""
    return tuple(rule for base in reversed(kind.__mro__) for rule in RULES.get(base, ()))
