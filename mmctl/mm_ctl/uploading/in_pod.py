"""Runs tar and sha256sum in the upload pod by `kubectl exec`, with files as standard input."""

import subprocess
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mm_ctl.documents import UsageError
from mm_ctl.uploading.pod import CONTAINER
from mm_operator.cluster.resources import POD
from mm_operator.errors import ClusterError

_HELD = 'set -e; mkdir -p "$0"; cd "$0"; find . -type f -exec sha256sum -z {} +'
_RECEIVED = r"""set -e; mkdir -p "$0"; cd "$0"
find . -name '*.uploading' -delete
tar -xf - --transform='s,$,.uploading,'
sync -f .
find . -name '*.uploading' \
  -exec sh -ec 'to="${0%.uploading}"; mv "$0" "$to"; sha256sum -z "$to"' {} \;
"""
"""Each file is written beside its place and renamed: half of one never takes it."""


def _readable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode = 0o644  # for pods of other users too
    return member


def digests(
    options: Sequence[str], pod: str, target: str, directory: Path, names: Sequence[str] = ()
) -> dict[str, str]:
    """Send files into a directory of the pod; return relative path -> SHA-256 of what it has.

    `options`: of kubectl. `names`: of files in `directory`, of which alone digests are returned;
    empty: of all that are there, and nothing is sent. UsageError: there is no kubectl.
    ClusterError: a file or the connection went away, or it failed; with last words.
    """
    words = ["kubectl", *options, "exec", "-i", pod, f"--container={CONTAINER}", "--"]
    words += ["sh", "-c", _RECEIVED if names else _HELD, target]
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
                        archive.add(directory / name, name, filter=_readable)
            output, errors = process.communicate()
        except OSError as error:
            process.kill()
            process.communicate()  # drops what was not sent, whose error would hide this one
            raise ClusterError(0, POD.kind, pod, f"the files were not sent: {error}") from error
    if process.returncode != 0:
        last = errors.decode(errors="replace").strip().splitlines()[-3:]
        raise ClusterError(0, POD.kind, pod, " | ".join(last) or "kubectl exec ended early")
    lines = (line.partition("  ") for line in output.decode().split("\0") if line)
    return {name.removeprefix("./"): digest for digest, _, name in lines}
