"""The termination message of the inspect Job: at most 4,096 bytes, or the kubelet cuts it."""

from mm_api.documents.model_facts import (
    MESSAGE_LIMIT_BYTES,
    InspectError,
    InspectReason,
    InspectResult,
    ModelFacts,
)
from mm_runtime.errors import InspectRefusedError

ELLIPSIS = " ..."


def facts_report(facts: ModelFacts) -> str:
    """Return the message of a checkpoint that is accepted.

    Raises:
        InspectRefusedError: `ConfigInvalid`: a name in config.json is so long that nothing fits.
    """
    text = InspectResult(facts=facts).to_json()
    if len(text.encode()) > MESSAGE_LIMIT_BYTES:
        raise InspectRefusedError(
            InspectReason.CONFIG_INVALID,
            f"config.json: the facts take {len(text.encode())} bytes; at most {MESSAGE_LIMIT_BYTES}"
            " fit. Shorten architectures[0].",
        )
    return text


def refusal_report(refused: InspectRefusedError) -> str:
    """Return the message of a refusal, its text shortened until all of it fits."""
    message = refused.message
    while True:
        text = InspectResult(error=InspectError(reason=refused.reason, message=message)).to_json()
        excess = len(text.encode()) - MESSAGE_LIMIT_BYTES
        if excess <= 0:
            return text
        # At least one character goes each time; a character is at most 4 bytes or 6 escaped ones.
        kept = len(message.removesuffix(ELLIPSIS)) - max(1, excess // 6) - len(ELLIPSIS)
        message = message[: max(0, kept)] + ELLIPSIS
