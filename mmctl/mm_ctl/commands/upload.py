"""`mmctl upload DIR --claim NAME`: copy a checkpoint from this machine into a claim.

Only files that differ are sent. What arrived is compared by digest with what is here.
"""

import argparse
import asyncio
import hashlib
import sys
from pathlib import Path, PurePosixPath
from typing import get_args

from mm_api.v1alpha1 import UserIds
from mm_ctl.connection import add_connection_options, connection, kubectl_options
from mm_ctl.documents import UsageError
from mm_ctl.uploading.pod import MOUNT, digests, start, upload_pod, user_ids_of
from mm_operator.cluster.resources import POD

COPIED, FAILED = 0, 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("directory", type=Path, help="the checkpoint's directory on this machine")
    parser.add_argument("--claim", required=True, help="the claim; it must exist")
    parser.add_argument("--path", default="", help="directory inside the claim (default: its root)")
    parser.add_argument(
        "--image", required=True, help="image with tar and sha256sum; the operator's will do"
    )
    parser.add_argument(
        "--image-pull-secret",
        action="append",
        default=[],
        metavar="NAME",
        help="Secret of the namespace to pull that image with; may be repeated",
    )
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds to wait for the pod")
    parser.add_argument(
        "--user-ids",
        choices=["Auto", *get_args(UserIds)],
        default="Auto",
        help="user of the pod. Fixed: 65532; Namespace: the namespace's range; Auto (default): "
        "Namespace on OpenShift, otherwise Fixed",
    )
    add_connection_options(parser)


async def run(options: argparse.Namespace) -> int:
    """Copy, verify, and say what was sent."""
    local = local_digests(options.directory)
    target = target_directory(options.path)
    async with connection(options) as there:
        ids = options.user_ids
        if ids == "Auto":
            ids = await user_ids_of(there.client, there.namespace)
        pod = upload_pod(
            options.claim, options.image, there.namespace, ids, options.image_pull_secret
        )
        name = await start(there.client, pod, options.timeout)
        try:
            options.namespace = there.namespace
            words = kubectl_options(options)
            return await asyncio.to_thread(_copy, words, name, options.directory, target, local)
        finally:
            await asyncio.shield(there.client.delete(POD, there.namespace, name))


def _copy(options: list[str], pod: str, directory: Path, target: str, local: dict[str, str]) -> int:
    held = digests(options, pod, target, directory)
    changed = [name for name, digest in sorted(local.items()) if held.get(name) != digest]
    if changed:
        received = digests(options, pod, target, directory, changed)
        wrong = [name for name in changed if received.get(name) != local[name]]
        if wrong:
            print(f"arrived damaged: {', '.join(wrong)}; run it again", file=sys.stderr)
            return FAILED
    size = sum((directory / name).stat().st_size for name in changed)
    print(f"{len(changed)} of {len(local)} files sent ({size:,} bytes), all verified")
    return COPIED


def local_digests(directory: Path) -> dict[str, str]:
    """Return relative path -> SHA-256 of every file below a directory; UsageError: none there."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory: give the one with config.json in it")
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    if not files:
        raise UsageError(f"{directory} holds no files")
    found = {}
    for path in files:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found[path.relative_to(directory).as_posix()] = digest
    return found


def target_directory(path: str) -> str:
    """Return the directory inside the pod; UsageError: the path leaves the claim."""
    wanted = PurePosixPath(path)
    if wanted.is_absolute() or ".." in wanted.parts:
        raise UsageError(f"--path {path} leaves the claim: write it relative, without ..")
    return str(PurePosixPath(MOUNT) / wanted)
