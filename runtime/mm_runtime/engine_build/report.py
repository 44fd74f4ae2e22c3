"""The termination message of the build Job: at most 4,096 bytes, or the kubelet cuts it."""

from mm_api.documents.build_result import BuildResult
from mm_api.documents.model_facts import MESSAGE_LIMIT_BYTES

LINE_LIMIT = 300
"""Characters kept of one log line in the message; the Job's log has them all."""


def build_report(result: BuildResult) -> str:
    """Return the result as JSON that fits: oldest log lines go first, then the message's end."""
    failure = result.failure
    if failure is not None:
        lines = [line[:LINE_LIMIT] for line in failure.log_tail]
        failure = failure.model_copy(update={"log_tail": lines})
        result = result.model_copy(update={"failure": failure})
    while len((text := result.to_json()).encode()) > MESSAGE_LIMIT_BYTES and failure is not None:
        if failure.log_tail:
            failure = failure.model_copy(update={"log_tail": failure.log_tail[1:]})
        else:
            kept = failure.message[: len(failure.message) * 9 // 10]
            failure = failure.model_copy(update={"message": kept})
        result = result.model_copy(update={"failure": failure})
    return text
