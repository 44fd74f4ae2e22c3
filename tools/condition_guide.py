"""What each condition type and reason means: the texts of docs/reference/conditions.md.

`tests/mm_operator/status/test_conditions_are_documented.py` holds that every reason which the
operator, a Job or an Event can set is here, and no other.
"""

from typing import Final, NamedTuple

from mm_api.conditions import ConditionType, Reason
from mm_api.documents.build_result import BuildReason
from mm_api.documents.model_facts import InspectReason

NOTHING: Final = "Nothing."


class TypeGuide(NamedTuple):
    """One row of the table of types."""

    true: str
    otherwise: str


class Advice(NamedTuple):
    """One row of a table of reasons."""

    meaning: str
    action: str


TYPES: Final[dict[ConditionType, TypeGuide]] = {
    ConditionType.READY: TypeGuide(
        "At least one replica answers: of the wanted revision, or of the former one while "
        "`RollingOut` replaces it; or `spec.replicas` is 0 and the engine is built (`NoReplicas`).",
        "Reason and message of the stage that is not finished, or of the problem.",
    ),
    ConditionType.AVAILABLE: TypeGuide(
        "At least one replica of any revision answers.", "No replica answers (`NoReplicas`)."
    ),
    ConditionType.PLANNED: TypeGuide(
        "The checkpoint is inspected; every limit and memory size is computed.",
        "The inspection runs, or spec or checkpoint is refused.",
    ),
    ConditionType.ENGINE_BUILT: TypeGuide(
        "The engine of the current plan is in the store.", "The build waits, runs or failed."
    ),
    ConditionType.ROLLING_OUT: TypeGuide(
        "Pods are being created or replaced.", "The rollout is complete, or waits for the engine."
    ),
    ConditionType.SCALING_ACTIVE: TypeGuide(
        "The operator, or an autoscaler that it manages, sets the number of replicas.",
        "Autoscaling is off, recommends only, or is blocked.",
    ),
    ConditionType.ENCODERS_READY: TypeGuide(
        "Every encoder pod answers. Absent without `vision.placement: Disaggregated`.",
        "Encoder pods are missing; the servers encode images themselves meanwhile.",
    ),
    ConditionType.DEGRADED: TypeGuide(
        "Something needs an operator's action: see reason and message.",
        "No action is needed (`AsExpected`).",
    ),
}

PLANNED: Final[dict[str, Advice]] = {
    Reason.PLAN_COMPLETE: Advice("The plan is complete; the message summarises it.", NOTHING),
    Reason.INSPECTING: Advice("The inspection Job reads the checkpoint.", "Wait; seconds."),
    Reason.INSPECT_PENDING: Advice(
        "The pod of the inspection Job cannot start.",
        "The message has the scheduler's or kubelet's reason: quota, claim, image or node.",
    ),
    Reason.INSPECT_FAILED: Advice(
        "The inspection was killed, timed out or ended without a report. It is retried.",
        "Check that the source is reachable; read the log of the Job's pod.",
    ),
    Reason.INVALID_SPEC: Advice(
        "A field, or a combination of fields, is invalid.", "Change the field that is named."
    ),
    Reason.NOT_SUPPORTED: Advice(
        "The field or family is not supported with this backend.",
        "Follow the message; [a page](api-unsupported.md) lists these fields.",
    ),
    Reason.GPU_UNKNOWN: Advice(
        "The GPU product, or its memory, cannot be determined from node labels.",
        "Set `spec.runtime.gpu.product`, or `memory` and `computeCapability`.",
    ),
    Reason.IMAGE_UNKNOWN: Advice(
        "The version of TensorRT-LLM cannot be determined from the image.",
        "Set `spec.build.trtllmVersion`.",
    ),
    Reason.DOES_NOT_FIT: Advice(
        "The model does not fit into the memory of the GPU, or of the container's limit.",
        "Apply one of `status.plan.suggestions`.",
    ),
    Reason.DELETING: Advice("The model is being deleted.", NOTHING),
    InspectReason.SOURCE_NOT_FOUND: Advice(
        "The path, repository, revision or object does not exist, or user 65532 may not read it.",
        "Correct `spec.model.source`; for files `chmod -R a+rX`.",
    ),
    InspectReason.SOURCE_DENIED: Advice(
        "The Hub or bucket refused the credentials (401, 403, gated).",
        "Correct the Secret; accept the licence of a gated repository.",
    ),
    InspectReason.SOURCE_UNTRUSTED: Advice(
        "The certificate of the Hub or bucket is not trusted: a private authority signed it.",
        "Put that authority into a ConfigMap, and name it in "
        "`spec.network.caBundle.configMapName`.",
    ),
    InspectReason.SOURCE_UNAVAILABLE: Advice(
        "The Hub or bucket does not answer, or limits the rate. It is retried.",
        "Check network, proxy and endpoint.",
    ),
    InspectReason.CONFIG_MISSING: Advice(
        "The checkpoint lacks a file such as config.json.", "Add the file that is named."
    ),
    InspectReason.CONFIG_INVALID: Advice(
        "A configuration file cannot be read, or contradicts itself.",
        "Correct the file and key that are named.",
    ),
    InspectReason.UNKNOWN_FAMILY: Advice(
        "No family matches the checkpoint.",
        "Set `spec.model.family`; docs/reference/families.md lists them.",
    ),
    InspectReason.FAMILY_MISMATCH: Advice(
        "`spec.model.family` is not the family of the checkpoint.", "Correct or remove the field."
    ),
    InspectReason.WEIGHTS_MISSING: Advice(
        "Weight files that the index or the family requires are absent.", "Complete the checkpoint."
    ),
    InspectReason.WEIGHTS_INVALID: Advice(
        "Headers of the weights are damaged, or do not match config.json.",
        "Download the named file again.",
    ),
    InspectReason.PICKLE_REFUSED: Advice(
        "The weights are pickles, which can run code.",
        "Convert to safetensors, or set `spec.model.allowPickle` for a trusted source.",
    ),
    InspectReason.CUSTOM_CODE_REFUSED: Advice(
        "The checkpoint needs Python code of its own.",
        "Set `spec.model.trustRemoteCode` for a trusted source.",
    ),
    InspectReason.IMAGE_NOT_USABLE: Advice(
        "`spec.build.image`, or the operator's runtime image, lacks what the inspection needs; an "
        "image of NVIDIA's alone has no `mm-runtime`.",
        "Build the image that the message names; `mm-runtime doctor` in it lists all checks.",
    ),
    InspectReason.ADAPTER_REFUSED: Advice(
        "A LoRA adapter does not match the checkpoint or uses an unsupported form.",
        "Correct the adapter that is named.",
    ),
}

ENGINE_BUILT: Final[dict[str, Advice]] = {
    Reason.BUILD_SUCCEEDED: Advice("The engine is in the store.", NOTHING),
    Reason.WAITING_FOR_PLAN: Advice("`Planned` is not True yet.", "See `Planned`."),
    Reason.BUILDING: Advice("The build Job runs.", "Wait; `status.build` has step and progress."),
    Reason.BUILD_PENDING: Advice(
        "The build Job's pod cannot start.", "The message has the reason: quota, claim, GPU, image."
    ),
    Reason.WAITING_FOR_BUILD: Advice(
        "Another model builds the same engine in the same store.", "Wait, or see that model."
    ),
    Reason.BUILD_FAILED: Advice(
        "The build failed and is not retried, or its retries are used up.",
        "Read the log lines in the message; a change of spec or source starts a new build.",
    ),
    Reason.BUILD_OUT_OF_MEMORY: Advice(
        "A step exceeded the memory limit.", "Raise `spec.build.resources.limits.memory`."
    ),
    Reason.BUILD_TIMED_OUT: Advice(
        "A step exceeded the timeout; finished steps are kept.", "Raise `spec.build.timeout`."
    ),
    Reason.BUILD_EVICTED: Advice(
        "The pod was evicted, preempted or lost its node. It is retried.",
        "Set `spec.build.resources.requests`.",
    ),
    Reason.ENGINE_CORRUPT: Advice(
        "A file of the stored engine is damaged. It is rebuilt once a day.",
        "When it recurs: check the store's disk, then delete the ConfigMap that is named.",
    ),
    Reason.ENGINE_MISMATCH: Advice(
        "The engine was built for another GPU or version of TensorRT-LLM than the pods have.",
        "Give `spec.build` and `spec.runtime` the same image and GPU; delete the named ConfigMap.",
    ),
    BuildReason.SOURCE_CHANGED: Advice(
        "The source is not the one that was inspected. It is inspected again.",
        "Pin a revision, or finish the upload.",
    ),
    BuildReason.SOURCE_NOT_FOUND: Advice(
        "The source disappeared after the inspection.", "Restore `spec.model.source`."
    ),
    BuildReason.WEIGHTS_INVALID: Advice(
        "Weights are missing, left over, of another shape or not finite; the message names them."
        " It is not retried.",
        "Correct the checkpoint in `spec.model.source`: copy all files again, or save it again.",
    ),
    BuildReason.VERIFICATION_FAILED: Advice(
        "The result differs from the checkpoint's own class, or from the plan.",
        "Report it with the log; try another `vision.engine` or TensorRT-LLM version.",
    ),
    BuildReason.STORE_NOT_WRITABLE: Advice(
        "The store is full or read-only. It is retried.",
        "Enlarge `spec.build.store.size`, or remove engines: `mm-runtime store gc`.",
    ),
    BuildReason.IMAGE_NOT_USABLE: Advice(
        "The image of the build lacks what this backend needs. It is not retried.",
        "Build the image that the message names; `mm-runtime doctor` in it lists all checks.",
    ),
    BuildReason.STEP_FAILED: Advice(
        "A build step failed; the message has the step and its first errors, or last lines.",
        "Follow the message; logs are in the store under `build/`.",
    ),
}

ROLLOUT: Final[dict[str, Advice]] = {
    Reason.REPLICAS_AVAILABLE: Advice("Replicas answer.", NOTHING),
    Reason.ROLLOUT_COMPLETE: Advice("All pods have the wanted revision.", NOTHING),
    Reason.ROLLOUT_IN_PROGRESS: Advice("Pods are being replaced.", "Wait."),
    Reason.CANARY_PROGRESSING: Advice(
        "A part of the chats goes to pods of the new revision; `status.rollout` has step, weight "
        "and comparisons.",
        "Wait, or end it with `mmctl rollout promote` or `abort`.",
    ),
    Reason.CANARY_ROLLED_BACK: Advice(
        "The new revision was worse than the stable one or answered otherwise (`AnswersDiffer`), "
        "did not start, or had too few requests by `spec.rollout.progressDeadline`. The stable one "
        "answers.",
        "Read `status.rollout`, then change the spec; `mmctl rollout promote` takes the revision "
        "all the same.",
    ),
    Reason.WAITING_FOR_ENGINE: Advice("`EngineBuilt` is not True yet.", "See `EngineBuilt`."),
    Reason.WAITING_FOR_TURN: Advice(
        "The operator changed what pods run (an upgrade, its values), not the spec; "
        "`operator.rollouts.maxModels` models roll out at a time, the least used first. The "
        "former revision serves meanwhile.",
        "Wait. A change of the spec rolls the model out at once.",
    ),
    Reason.ROLLOUTS_STOPPED: Advice(
        "The same, and the rollout of the model that is named failed: no further one starts.",
        "See the conditions of that model. Once its rollout is complete, or its spec is changed, "
        "the others continue; `helm rollback` ends it for all.",
    ),
    Reason.PODS_STARTING: Advice(
        "Pods load the engine or run warm-up requests; the message counts both phases.",
        "Wait; a warm-up that fails each time becomes `WarmupFailed`.",
    ),
    Reason.PODS_UNSCHEDULABLE: Advice(
        "No node accepts a pod.",
        "Add nodes, or change resources, selectors or tolerations. Where the message names pods of "
        "the former revision: `spec.rollout` ([rollouts](../tasks/rollouts.md)).",
    ),
    Reason.VOLUME_UNAVAILABLE: Advice(
        "A pod of a Job, a server or an encoder is on a node that cannot attach or mount "
        "one of its volumes; in the words of the pod's Events.",
        "As the message says. Multi-Attach: a store that several nodes may attach "
        "(`spec.build.store`), or one node for all.",
    ),
    Reason.IMAGE_NOT_USABLE: Advice(
        "A container of the pods cannot start: the image has no `mm-runtime`.",
        "Build the image that the message names, and set `spec.runtime.image`.",
    ),
    Reason.FAILED_CREATE: Advice(
        "Admission rejects the pods of the wanted revision: a PriorityClass or ServiceAccount that "
        "is missing, Pod Security, a webhook.",
        "As the message says.",
    ),
    Reason.IMAGE_PULL_FAILED: Advice(
        "The image of a container cannot be pulled; the registry's answer is in the message, "
        "without ports and addresses.",
        "Check the image's name, `imagePullSecrets` and whether nodes reach the registry.",
    ),
    Reason.CREATE_CONTAINER_CONFIG_ERROR: Advice(
        "A container cannot be created: a Secret, a ConfigMap or a key of one is missing, or the "
        "image's user is not allowed.",
        "Create what the message names; the kubelet tries again by itself.",
    ),
    Reason.WARMUP_FAILED: Advice(
        "The models are loaded, and a request of the warm-up failed three times with the same "
        "words, or ten times with others. The pod does not become Ready, and tries again.",
        "As the message says. What a chat template or a file of the checkpoint causes is repaired "
        "there, and built again; the gateway's log has each failure.",
    ),
    Reason.PODS_CRASHING: Advice(
        "A container ends or waits with an error.",
        "The message has the first errors of the server, or its last lines where none is an error; "
        "`kubectl logs --previous` has the rest.",
    ),
    Reason.GPU_OUT_OF_MEMORY: Advice(
        "The GPU has too little free memory for the model; the message has the bytes that were "
        "needed and free. Another program may use the GPU.",
        "Free the GPU, or lower `spec.engine.maxBatchSize`, `maxSeqLen` or the CUDA pool.",
    ),
    Reason.GPU_UNUSABLE: Advice(
        "No GPU of the pod can be used: it is lost, or the node's driver is older than the image's "
        "CUDA. Pods that fail twice so are replaced.",
        "Repair or drain the node, update its driver, or use an image with an older CUDA.",
    ),
    Reason.QUOTA_EXCEEDED: Advice(
        "A ResourceQuota rejects an object.", "Raise the quota, or lower requests."
    ),
    Reason.NO_REPLICAS: Advice(
        "`spec.replicas` is 0, or no replica answers.", "Raise `spec.replicas`; else see `Ready`."
    ),
    Reason.SCALED_TO_ZERO: Advice(
        "`spec.autoscaling.minReplicas` is 0 and no request came for `scaleToZeroAfter`. `Ready` "
        "stays True: the router holds the next request and a replica starts "
        "([scale-to-zero.md](../tasks/scale-to-zero.md)).",
        "Nothing. Clients must use the router; the model's own Service has no pod meanwhile.",
    ),
    Reason.WAITING_FOR_SLOT: Advice(
        "Another model has the GPU of `spec.runtime.gpu.slot`. `Ready` stays True: the router "
        "holds requests until it is this model's turn "
        "([scale-to-zero.md](../tasks/scale-to-zero.md#models-that-take-turns-on-a-gpu)).",
        "Nothing. Where requests wait too long, give the model a GPU of its own.",
    ),
    Reason.EVALUATION_FAILED: Advice(
        "The engine does not answer like its checkpoint: prompt, token and distance are in the "
        "message, figures in `status.evaluation`. Its pods do not become Ready.",
        "Build the engine again, or use another quantization or image; "
        "`spec.build.evaluation: Off` serves it unchecked.",
    ),
    Reason.EVALUATION_MISSING: Advice(
        "`spec.rollout.requireEvaluation` is set, and nothing has compared the served engine with "
        "its checkpoint: its build kept no answers.",
        "`mmctl compare NAME --reference`, or build with `spec.build.evaluation: Auto`.",
    ),
}

SCALING: Final[dict[str, Advice]] = {
    Reason.FOLLOWING_LOAD: Advice("Replicas follow the load.", NOTHING),
    Reason.AUTOSCALING_OFF: Advice("`spec.replicas` is used as it is.", NOTHING),
    Reason.RECOMMEND_ONLY: Advice(
        "`mode: Recommend`: `status.scaling` has the number, nothing is changed.",
        "Set `mode: Enforce`.",
    ),
    Reason.WAITING_FOR_METRICS: Advice("The first evaluation is pending.", "Wait 15 s."),
    Reason.METRICS_MISSING: Advice(
        "Prometheus does not answer, or has no series of the pods. Replicas are kept.",
        "Check the address and the scrape configuration, "
        "[observability.md](../tasks/observability.md).",
    ),
    Reason.CAPACITY_LIMITED: Advice(
        "More replicas are needed; no node can take them.",
        "Add nodes, or lower `autoscaling.maxReplicas`.",
    ),
    Reason.REPLICAS_CONTESTED: Advice(
        "A HorizontalPodAutoscaler of another owner sets the same replicas; the operator stops.",
        "Delete it, or set `mode: Off` and target the MultimodalModel.",
    ),
    Reason.ENGINE_NOT_AVAILABLE: Advice(
        "`autoscaling.engine` is KEDA, which is not installed or does not work.",
        "Enable `keda` in the chart; the message has the obstacle.",
    ),
}

DEGRADED: Final[dict[str, Advice]] = {
    Reason.AS_EXPECTED: Advice("No action is needed.", NOTHING),
    Reason.CLUSTER_ERROR: Advice(
        "The API server refused or failed a request.",
        "Do what the message begins with: rights, admission, or the API server. It is retried.",
    ),
    Reason.NAMESPACE_NOT_ENABLED: Advice(
        "The namespace has no label `serving.multimodal.dev/enabled=true`, or is a system "
        "namespace: the operator makes nothing in it. Also the reason of `Ready`.",
        "Run the command that the message begins with; the model continues within seconds.",
    ),
    Reason.STORE_CANNOT_GROW: Advice(
        "`spec.build.store.size` requests more than the store's claim has, and the claim cannot "
        "grow.",
        "Set the size that the message names, remove it, or use a store of your own.",
    ),
    Reason.NAME_TAKEN: Advice(
        "An object that is not the model's has the name of a child. It is not changed.",
        "Rename or delete it, or rename the model.",
    ),
    Reason.MEMORY_POOL_EXHAUSTED: Advice(
        "A server found its CUDA or pinned memory pool full.",
        "Set `spec.runtime.memoryPools` to the size in the message.",
    ),
    Reason.MPS_UNAVAILABLE: Advice(
        "MPS was planned and does not work; encoder and language model use time slices.",
        "Use an image and nodes with MPS, or set `spec.vision.sharing: TimeSlicing`.",
    ),
    Reason.KERNELS_UNAVAILABLE: Advice(
        "The Reference engine could not compile its GPU kernels; tokens take several times as "
        "long.",
        "Use an image with package triton, its headers and a C compiler.",
    ),
}

EVENTS: Final[dict[str, Advice]] = {
    "BuildStepFinished": Advice("A build step finished, with its seconds.", NOTHING),
    "ScaledUp": Advice("Replicas were added, with the reason.", NOTHING),
    "ScaledDown": Advice("Replicas were removed, with the reason.", NOTHING),
}

SECTIONS: Final[dict[str, dict[str, Advice]]] = {
    "Planned": PLANNED,
    "EngineBuilt": ENGINE_BUILT,
    "RollingOut, Available, Ready, EncodersReady": ROLLOUT,
    "ScalingActive": SCALING,
    "Degraded": DEGRADED,
    "Events without a condition": EVENTS,
}
"""Heading -> reason -> text. `Ready` and `Degraded` repeat reasons of the other conditions."""
