"""Pods that the API server refuses: because of a quota or a range, in the words of admission."""


def is_quota(refusal: str) -> bool:
    """Return whether a ResourceQuota or a LimitRange refuses a pod.

    A quota is exceeded, or it counts what a container does not state ("failed quota"); a range
    speaks of "usage per Container" or "per Pod".
    """
    said = ("exceeded quota", "failed quota", "usage per Container", "usage per Pod")
    return any(words in refusal for words in said)
