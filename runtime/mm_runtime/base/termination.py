"""The termination message: what Kubernetes keeps of a finished container."""

import logging
from pathlib import Path

log = logging.getLogger(__name__)


def write_termination_message(path: Path | None, text: str) -> None:
    """Write the message, when there is a file for it; a failure is logged, never raised.

    The kubelet mounts the file alone, so it is written in place: a rename would replace the mount.
    """
    if path is None:
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        log.error("the termination message cannot be written to %s: %s", path, error.strerror)  # noqa: TRY400
