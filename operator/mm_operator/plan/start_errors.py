"""Containers that never ran, in the words of the kubelet: no image, no `mm-runtime`, no Secret.

Such a container leaves no report of its own. NVIDIA's images of Triton have no `mm-runtime`.
"""

import re
from typing import Final

from mm_api.conditions import Reason
from mm_api.contract import Command

_UNPULLED: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""The kubelet's reasons of a container that waits for its image; the first two take turns."""

_AROUND: Final = re.compile(
    r'Back-off pulling image "[^"]*"(?:: \w+(?=: ))?(?:: )?'
    r'|Failed to pull image "[^"]*": '
    r"|rpc error: code = \w+ desc = "
)
"""What the kubelet writes around a registry's words, in one of the two and not in the other."""

_NOT_STARTED: Final = frozenset(
    {"StartError", "ContainerCannotRun", "CreateContainerError", "RunContainerError"}
)
"""Reasons of a container that never ran: of containerd, Docker, CRI-O and the kubelet itself."""

_WORDS: Final = (Command.PROGRAM, "executable file", "not found")
"""In each container runtime's message about a program that the image lacks."""

_TODO: Final = (
    "build one from runtime/Dockerfile, Dockerfile.cuda or Dockerfile.trtllm "
    "(docs/start/first-model-on-a-gpu.md)"
)


def lacks_program(reason: str, message: str) -> bool:
    """Return whether a container ended, or waits, because its image has no `mm-runtime`."""
    return reason in _NOT_STARTED and all(word in message for word in _WORDS)


def lacking(field: str) -> str:
    """Return the sentence about such an image, which a field of the spec names."""
    return (
        f"the image has no program {Command.PROGRAM}, so it cannot be one of NVIDIA's as it is: "
        f"{_TODO} and set {field} to it"
    )


def not_created(reason: str, message: str) -> tuple[Reason, str] | None:
    """Return reason and sentence for a container that never ran; None: it waits for something."""
    if reason in _UNPULLED:
        said = _AROUND.sub("", message) or reason
        return Reason.IMAGE_PULL_FAILED, f"its image cannot be pulled: {said}"
    if reason == Reason.CREATE_CONTAINER_CONFIG_ERROR:
        return Reason.CREATE_CONTAINER_CONFIG_ERROR, f"it cannot be created: {message or reason}"
    return None
