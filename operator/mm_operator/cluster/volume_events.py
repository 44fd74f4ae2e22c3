"""What Events say of the volumes of one pod. Pure; names of pods stay out of texts."""

from collections.abc import Iterable, Mapping
from typing import Any

from mm_api.quoted_text import steady
from mm_operator.model import VolumeFault, VolumeTrouble

MULTI_ATTACH = "Multi-Attach error"
"""With this the attach controller begins its message, whose reason is FailedAttachVolume."""

_MESSAGE_LIMIT = 300
_READ_LIMIT = 2048
"""Length of a message whose generated parts are left out; who may create Events may write a
megabyte."""


def volume_trouble(events: Iterable[Mapping[str, Any]], pod: str) -> VolumeTrouble | None:
    """Return the worst trouble among Events of a pod; None: they speak of nothing of the kind.

    The kubelet's FailedMount follows from an attachment that failed, every two minutes: the cause
    stays, whatever was said last.
    """
    found: dict[VolumeFault, str] = {}
    for event in events:
        message = str(event.get("message") or "")[:_READ_LIMIT].replace(pod, "the pod")
        said = " ".join(steady(message).split())
        if fault := _fault(str(event.get("reason") or ""), said):
            found[fault] = said[:_MESSAGE_LIMIT].rstrip(".")
    worst = next((fault for fault in VolumeFault if fault in found), None)
    if worst is None:
        return None
    # Multi-Attach names the volume and the pods that have it: names that someone generated.
    message = "" if worst is VolumeFault.ATTACHED_ELSEWHERE else found[worst]
    return VolumeTrouble(worst, message)


def _fault(reason: str, said: str) -> VolumeFault | None:
    if reason == VolumeFault.NOT_ATTACHED:
        attached = said.startswith(MULTI_ATTACH)
        return VolumeFault.ATTACHED_ELSEWHERE if attached else VolumeFault.NOT_ATTACHED
    return VolumeFault.NOT_MOUNTED if reason == VolumeFault.NOT_MOUNTED else None
