"""Volumes that a pod waits for: what is so, and what to do, in one sentence."""

from mm_operator.model import VolumeFault, VolumeTrouble


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
