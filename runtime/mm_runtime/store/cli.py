"""`mm-runtime store gc|pull`: parse, call, print."""

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from mm_api.contract import Command, ExitCode, Flag
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.base.documents import read_document, write_termination_message
from mm_runtime.errors import EngineCorruptError, PermanentError

if TYPE_CHECKING:
    from mm_runtime.store.engines import EngineStore


def add_store(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    store = commands.add_parser(Command.STORE, help="clean and copy built engines")
    parts = store.add_subparsers(required=True, metavar="PART")
    _add_gc(parts)
    _add_pull(parts)


def _part(
    parts: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    part = parts.add_parser(name, help=text, description=text)
    part.add_argument(Flag.STORE, required=True, help="directory or s3://BUCKET/PREFIX")
    return part


def _add_gc(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    part = _part(parts, Command.STORE_GC, "remove engines; never one that is being built")
    which = part.add_mutually_exclusive_group(required=True)
    which.add_argument("--remove", nargs="+", metavar="FINGERPRINT", help="these")
    which.add_argument(
        Flag.KEEP, nargs="*", metavar="FINGERPRINT", help="all others that are unused"
    )
    part.add_argument(
        Flag.UNUSED_FOR,
        type=float,
        default=86400.0,
        metavar="SECONDS",
        help="with --keep: engines go that were not kept for so long",
    )
    part.add_argument(Flag.TERMINATION_LOG, type=Path, help="also write the result here")
    part.set_defaults(command=_gc)


def _add_pull(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    part = _part(
        parts, Command.STORE_PULL, "copy one engine into another store, checked byte by byte"
    )
    part.add_argument("fingerprint", metavar="FINGERPRINT")
    part.add_argument(Flag.TO, required=True, help="directory or s3://BUCKET/PREFIX")
    part.add_argument(
        Flag.SERVING, type=Path, help="ServingPlan as JSON: the engine must be the one it was for"
    )
    part.add_argument(
        Flag.ROLE,
        choices=("server", "encoder"),
        default="server",
        help="encoder: only what the pod of a vision encoder opens, into a directory of its own",
    )
    part.add_argument(Flag.TERMINATION_LOG, type=Path, help="also write an error here")
    part.set_defaults(command=_pull)


def _gc(arguments: argparse.Namespace) -> int:
    from mm_runtime.store.garbage_collection import collect  # noqa: PLC0415 (see mm_runtime.cli)

    text = collect(
        open_store(arguments.store),
        datetime.now(UTC),
        remove=arguments.remove or (),
        keep=arguments.keep,
        unused_for=timedelta(seconds=arguments.unused_for),
    ).to_json()
    print(text)
    write_termination_message(arguments.termination_log, text)
    return ExitCode.OK


def _pull(arguments: argparse.Namespace) -> int:
    from mm_api.documents.server_state import Role  # noqa: PLC0415 (see mm_runtime.cli)
    from mm_runtime.base.manifest import compare_recorded  # noqa: PLC0415
    from mm_runtime.base.needed_files import needed_files  # noqa: PLC0415
    from mm_runtime.store.engines import copy_engine, problems  # noqa: PLC0415

    role = Role(arguments.role)
    if role is not Role.SERVER and arguments.to.startswith("s3://"):
        raise PermanentError(
            f"--role {role} pulls a part of an engine, and a bucket is for complete ones: give --to"
            " a directory of the pod's own."
        )
    source, target = open_store(arguments.store), open_store(arguments.to)
    fingerprint = _chosen(source, arguments.fingerprint)
    content = source.manifest(fingerprint)
    serving = read_document(ServingPlan, arguments.serving) if arguments.serving else None
    expected = serving.manifest_sha256 if serving else None
    compare_recorded(content, expected, f"{source}: the manifest of engine {fingerprint[:12]}")
    there = fingerprint in target.fingerprints() and not problems(target, fingerprint, role=role)
    if there and target.manifest(fingerprint) == content:
        print(f"{fingerprint} was there")
        return ExitCode.OK
    files = needed_files(copy_engine(source, fingerprint, target, role).files, role)
    print(f"{fingerprint} {sum(file.size for file in files)} bytes")
    return ExitCode.OK


def _chosen(store: "EngineStore", prefix: str) -> str:
    """Return a full fingerprint; an abbreviation must mean one engine."""
    found = [one for one in store.fingerprints() if one.startswith(prefix)]
    if not found:
        raise EngineCorruptError(f"{store} has no engine {prefix}.")
    if len(found) > 1:
        raise PermanentError(f"{prefix} means {len(found)} engines of {store}: write more digits.")
    return found[0]


def open_store(text: str) -> "EngineStore":
    """Return the store at a path or at `s3://BUCKET/PREFIX`; PermanentError: another scheme."""
    from mm_runtime.sources.address import BUCKET, parse_bucket  # noqa: PLC0415 (see mm_runtime.cli)
    from mm_runtime.store.directory import DirectoryStore  # noqa: PLC0415

    if text.startswith(BUCKET):
        from mm_runtime.store.bucket import BucketStore  # noqa: PLC0415 (a bucket's client)

        return BucketStore(parse_bucket(text))
    if "://" in text:
        raise PermanentError(
            f"{text!r} is not a store; expected a directory or s3://BUCKET/PREFIX."
        )
    return DirectoryStore(Path(text))
