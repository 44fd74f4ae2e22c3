"""Containers that cannot be started: the image has no `mm-runtime`. In the words of the kubelet.

NVIDIA's images of Triton have none, and a container that does not start leaves no report of its
own.
"""

from typing import Final

from mm_api.contract import Command

_NOT_STARTED: Final = frozenset(
    {"StartError", "ContainerCannotRun", "CreateContainerError", "RunContainerError"}
)
"""Reasons of a container that never ran: of containerd, Docker, CRI-O and the kubelet itself."""

_WORDS: Final = (Command.PROGRAM, "executable file", "not found")
"""In each container runtime's message about a program that the image lacks."""

_TODO: Final = (
    "build one from runtime/Dockerfile, Dockerfile.cuda or Dockerfile.trtllm "
    "(docs/how-to/first-model-on-a-gpu.md)"
)


def lacks_program(reason: str, message: str) -> bool:
    """Return whether a container did not start because its image has no `mm-runtime`.

    Args:
        reason: of its end, or of its waiting.
        message: of the same.
    """
    return reason in _NOT_STARTED and all(word in message for word in _WORDS)


def lacking(field: str) -> str:
    """Return the sentence about such an image, which a field of the spec names."""
    return (
        f"the image has no program {Command.PROGRAM}, so it cannot be one of NVIDIA's as it is: "
        f"{_TODO} and set {field} to it"
    )
