"""Whether the GPUs of one more set of pods are free: what is looked for, and what was found."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mm_api.v1alpha1 import Toleration


@dataclass(frozen=True, slots=True)
class GpuNeed:
    """GPUs that a rollout needs beside those of the pods that run.

    Attributes:
        resource: name by which they are requested.
        pods: GPUs of each pod that comes on top.
        node_labels: that their nodes must have.
        tolerations: of the pods.
    """

    resource: str
    pods: tuple[int, ...]
    node_labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class SpareGpus:
    """What the nodes said about a need.

    Attributes:
        free: whether it is met; None: unknown.
        why: what was looked at, as the end of a sentence that begins with "because".
    """

    free: bool | None
    why: str
