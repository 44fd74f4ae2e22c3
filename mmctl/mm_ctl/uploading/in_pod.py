"""Runs the receiver in the upload pod by `kubectl exec`, with files as its standard input."""

import json
import subprocess
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mm_ctl.documents import UsageError
from mm_ctl.uploading import receiver
from mm_ctl.uploading.pod import CONTAINER
from mm_operator.cluster.resources import POD
from mm_operator.errors import ClusterError

_RECEIVER = Path(receiver.__file__).read_text(encoding="utf-8")


def run_receiver(
    options: Sequence[str],
    pod: str,
    arguments: Sequence[str],
    directory: Path,
    names: Sequence[str],
) -> dict[str, str]:
    """Run the receiver and return relative path -> SHA-256 of what it reports.

    `options`: of kubectl. `names`: of files in `directory`, sent as a tar stream. UsageError: there
    is no kubectl. ClusterError: a file or the connection went away, or it failed; with last words.
    """
    words = ["kubectl", *options, "exec", "-i", pod, f"--container={CONTAINER}", "--"]
    words += ["python3", "-c", _RECEIVER, *arguments]
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)
    except FileNotFoundError as error:
        raise UsageError("there is no kubectl: install it") from error
    with process:
        try:
            if names:
                with (
                    suppress(BrokenPipeError),  # it has ended, and said why
                    tarfile.open(fileobj=process.stdin, mode="w|", dereference=True) as archive,
                ):
                    for name in names:
                        archive.add(directory / name, name)
            output, errors = process.communicate()
        except OSError as error:
            process.kill()
            process.communicate()  # drops what was not sent, whose error would hide this one
            raise ClusterError(0, POD.kind, pod, f"the files were not sent: {error}") from error
    if process.returncode != 0:
        last = errors.decode(errors="replace").strip().splitlines()[-3:]
        raise ClusterError(0, POD.kind, pod, " | ".join(last) or "kubectl exec ended early")
    found: dict[str, str] = json.loads(output)
    return found
