"""Label, annotation and field-manager keys. The prefix appears nowhere else in the source tree."""

PREFIX = "serving.multimodal.dev"
GROUP = PREFIX
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "MultimodalModel"
PLURAL = "multimodalmodels"

FIELD_MANAGER = "multimodal-operator"
"""The one field manager of server-side apply."""

APP_NAME = "app.kubernetes.io/name"
APP_INSTANCE = "app.kubernetes.io/instance"
APP_COMPONENT = "app.kubernetes.io/component"
APP_MANAGED_BY = "app.kubernetes.io/managed-by"

APP_NAME_VALUE = "multimodal-model"
MANAGED_BY_VALUE = "multimodal-operator"

MODEL = f"{PREFIX}/model"
"""Label: name of the MultimodalModel an object belongs to. Absent on what several models share."""

FINGERPRINT = f"{PREFIX}/fingerprint"
"""Label: first 32 hex digits of the engine's fingerprint (a label value holds at most 63)."""

INPUTS_HASH = f"{PREFIX}/inputs-hash"
"""Annotation: digest of everything a Job or document was made from."""

INTENT_HASH = f"{PREFIX}/intent-hash"
"""Annotation: digest of the object as it was last applied; shows when a field must be removed."""

ATTEMPT = f"{PREFIX}/attempt"
"""Annotation on Jobs: how many Jobs were made from the same inputs, this one included."""

TERMS_HASH = f"{PREFIX}/terms-hash"
"""Annotation on Jobs: digest of what their pods were made from beside the inputs: image, place,
resources, deadline. A Job of other terms is replaced when none of its pods runs."""

MADE_BY = f"{PREFIX}/made-by"
"""Annotation on build Jobs, which models share: uid of the model whose terms they follow."""

MADE_FOR = f"{PREFIX}/made-for"
"""Annotation on build Jobs: name of the model that `MADE_BY` means, for people."""

SWEEP = f"{PREFIX}/sweep"
"""Annotation on Jobs that remove engines from a store."""

ENABLED = f"{PREFIX}/enabled"
"""Label of namespaces, with the value true: models are served there. For the chart's policy."""

SERVING_HASH = f"{PREFIX}/serving-hash"
"""Annotation on the pod template: digest of the serving plan, so that a change rolls the pods."""

REVISION = f"{PREFIX}/revision"
"""Label of a canary's pods and Service, of which the endpoints have it: first digits of the
revision's hash."""

REVISION_DIGITS = 10

ROLLOUT = f"{PREFIX}/rollout"
"""Annotation on a model: `promote REVISION` or `abort REVISION`, written by `mmctl rollout`."""

DEFINITION_RELEASE = f"{PREFIX}/release"
"""Annotation on the resource definition: the release that it comes from."""

DEFINITION_DIGEST = f"{PREFIX}/definition-digest"
"""Annotation beside it: digest of its spec, as it was generated."""

SPEC_DIGEST = f"{PREFIX}/spec-digest"
"""Annotation on Deployments: digest of the spec that the revision was made of. Pods that should
change while it does not change because of the operator, and wait for their turn."""

BY_TURNS = f"{PREFIX}/by-turns"
"""Annotation on Deployments: the revision that is being rolled out in its turn, if it is one; it
goes once the rollout is complete."""

COMPARISON = f"{PREFIX}/comparison"
"""Annotation on a model: the `EvaluationReport` of `mmctl compare`, as JSON; the status shows it
while its fingerprint is the planned one. Those who may change the model may write it."""

GPU_PRODUCT = "nvidia.com/gpu.product"
"""Label of nodes, from NVIDIA's GPU feature discovery: the product of the node's GPUs."""


class Component:
    """Values of the label `app.kubernetes.io/component`."""

    INSPECT = "inspect"
    BUILD = "build"
    SERVER = "server"
    CANARY = "canary"
    WORKER = "worker"
    ENCODER = "encoder"
    TRITON = "triton"
    STORE = "store"
    SWEEP = "sweep"
