"""PURE: pods whose GPU cannot be used are replaced, so that another one is given to the model.

A container that is started again keeps the pod's GPU. Once that has not helped, another pod may get
another GPU, of another node where the lost one is not offered any more.
"""

from mm_operator.model import PodState, Ref, Snapshot

STARTS = 2
"""Starts of a container that fail before its pod is replaced: the GPU may have come back meanwhile,
and the back-off of the kubelet (10 s after the first) bounds how often pods are made."""


def replaced(snapshot: Snapshot) -> frozenset[Ref]:
    """Return the model's pods that are deleted for want of a GPU; their Deployments make others."""
    pods = snapshot.observed.every_pod
    return frozenset(Ref("Pod", pod.name) for pod in pods if is_stuck(pod))


def is_stuck(pod: PodState) -> bool:
    """Return whether starting its containers has not brought a pod's GPU back."""
    lost = pod.gpu is not None and not pod.gpu.usable
    return lost and pod.restarts >= STARTS - 1 and not (pod.ready or pod.terminating)
