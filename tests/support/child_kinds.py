"""What kubectl calls the kinds of a model's children, by the operator's own list of them."""

from mm_operator.cluster.resources import CHILDREN, DEVICE_CHILDREN

CHILD_KINDS = ",".join(
    ".".join(filter(None, (one.plural, one.group))) for one in (*CHILDREN, *DEVICE_CHILDREN)
)
"""For `kubectl get`. Without KEDA's, which a cluster may not know."""
