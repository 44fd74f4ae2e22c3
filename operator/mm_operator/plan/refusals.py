"""Why pods are refused or wait, in the words of admission, scheduler and kubelet."""

import re
from typing import Final

from mm_operator import names

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
