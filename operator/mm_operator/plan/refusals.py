"""Why pods are refused or wait, in the words of admission, scheduler and kubelet, and in ours."""

import re
from typing import Final

from mm_operator import names
from mm_operator.model import VolumeFault, VolumeTrouble

_NO_CLAIM: Final = re.compile(
    r'persistentvolumeclaim "(?P<name>[^"]*)" (?:not found|is being deleted)'
    r"|bound to non-existent persistentvolume"
)
"""The scheduler's words (pkg/scheduler/framework/plugins/volumebinding of Kubernetes)."""


def lacks_claim(why: str) -> bool:
    """Return whether a pod waits for a claim that a spec names and that does not exist.

    The claim that the operator makes is on its way: the scheduler has only not seen it yet.
    """
    found = _NO_CLAIM.search(why)
    return found is not None and found["name"] != names.STORE_CLAIM


def is_refused(why: str) -> bool:
    """Return whether the API server refuses a pod: admission, or an object that it names."""
    return any(
        words in why for words in ("Error creating: ", " is forbidden: ", " denied the request: ")
    )


def is_quota(refusal: str) -> bool:
    """Return whether a ResourceQuota or a LimitRange refuses a pod.

    A quota is exceeded, or it counts what a container does not state ("failed quota"); a range
    speaks of "usage per Container" or "per Pod".
    """
    said = ("exceeded quota", "failed quota", "usage per Container", "usage per Pod")
    return any(words in refusal for words in said)


def waits_for_volume(trouble: VolumeTrouble) -> str:
    """Return the sentence about a pod that was placed on a node and has no volumes there."""
    said = f": {trouble.message}" if trouble.message else ""
    match trouble.fault:
        case VolumeFault.ATTACHED_ELSEWHERE:
            return (
                "a pod waits for a volume that one node may attach, and another node has it "
                "(Multi-Attach): it starts once the pods there ended. Use a store that several "
                "nodes may attach (spec.build.store: accessMode ReadWriteMany, a claim of yours, "
                "or a bucket), or keep pods and Jobs on one node (nodeSelector)"
            )
        case VolumeFault.NOT_ATTACHED:
            return (
                f"a pod waits for a volume that its node cannot attach{said}. See whether the "
                "volume exists in the node's zone, and the storage driver's own pods"
            )
        case VolumeFault.NOT_MOUNTED:
            return (
                f"a pod waits for a volume that its node cannot mount{said}. See whether the "
                "claims, Secrets and ConfigMaps of the spec exist, and whether the node reaches "
                "their storage"
            )
