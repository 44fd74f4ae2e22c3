"""`mm-runtime store ls|verify|gc|pull`: parse, call, print."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from mm_api.contract import Command, ExitCode, Flag
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.base.documents import read_document
from mm_runtime.base.termination import write_termination_message
from mm_runtime.errors import EngineCorruptError, PermanentError

if TYPE_CHECKING:
    from mm_runtime.store.engines import EngineStore

SHOWN = 12
"""Digits of a fingerprint in a table, as git shows commits."""

COLUMNS = ("FINGERPRINT", "FAMILY", "BACKEND", "DTYPE", "FILES", "BYTES", "CREATED", "GPU", "STATE")


def add_store(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Define the command and its parts."""
    store = commands.add_parser(Command.STORE, help="list, check, clean and copy built engines")
    parts = store.add_subparsers(required=True, metavar="PART")
    _add_ls(parts)
    _add_verify(parts)
    _add_gc(parts)
    _add_pull(parts)


def _part(
    parts: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    part = parts.add_parser(name, help=text, description=text)
    part.add_argument(Flag.STORE, required=True, help="directory or s3://BUCKET/PREFIX")
    return part


def _add_ls(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    part = _part(parts, "ls", "list the engines")
    part.set_defaults(command=_ls)


def _add_verify(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    part = _part(parts, "verify", "compare every byte with the manifests; exit code 6 on damage")
    part.add_argument("fingerprints", nargs="*", metavar="FINGERPRINT", help="default: all")
    part.set_defaults(command=_verify)


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


def _ls(arguments: argparse.Namespace) -> int:
    from mm_runtime.store.engines import parse_manifest, problems  # noqa: PLC0415 (see mm_runtime.cli)
    from mm_runtime.store.opening import open_store  # noqa: PLC0415

    store = open_store(arguments.store)
    rows: list[tuple[str, ...]] = [COLUMNS]
    for fingerprint in store.fingerprints():
        wrong = problems(store, fingerprint, digests=False)
        about: tuple[str, ...] = ("-",) * (len(COLUMNS) - 2)
        if not wrong or "manifest" not in wrong[0]:
            manifest = parse_manifest(store.manifest(fingerprint), fingerprint, str(store))
            engine, size = manifest.plan.engine, sum(file.size for file in manifest.files)
            about = (
                *(engine.family, engine.backend, engine.dtype, str(len(manifest.files)), str(size)),
                manifest.created.isoformat(),
                manifest.gpu.product if manifest.gpu else "-",
            )
        rows.append((fingerprint[:SHOWN], *about, wrong[0] if wrong else "complete"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (value.ljust(width) for value, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return ExitCode.OK


def _verify(arguments: argparse.Namespace) -> int:
    from mm_runtime.store.engines import problems  # noqa: PLC0415 (see mm_runtime.cli)
    from mm_runtime.store.opening import open_store  # noqa: PLC0415

    store = open_store(arguments.store)
    damaged = 0
    for fingerprint in _chosen(store, arguments.fingerprints):
        wrong = problems(store, fingerprint)
        print(f"{fingerprint} {'damaged' if wrong else 'complete'}")
        for problem in wrong:
            print(f"  {problem}")
        damaged += bool(wrong)
    return ExitCode.ENGINE_CORRUPT if damaged else ExitCode.OK


def _gc(arguments: argparse.Namespace) -> int:
    from mm_runtime.store.garbage_collection import collect  # noqa: PLC0415 (see mm_runtime.cli)
    from mm_runtime.store.opening import open_store  # noqa: PLC0415

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
    from mm_runtime.store.opening import open_store  # noqa: PLC0415

    role = Role(arguments.role)
    if role is not Role.SERVER and arguments.to.startswith("s3://"):
        raise PermanentError(
            f"--role {role} pulls a part of an engine, and a bucket is for complete ones: give --to"
            " a directory of the pod's own."
        )
    source, target = open_store(arguments.store), open_store(arguments.to)
    fingerprint = _chosen(source, [arguments.fingerprint])[0]
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


def _chosen(store: "EngineStore", prefixes: Sequence[str]) -> list[str]:
    """Return full fingerprints; an abbreviation must mean one engine."""
    there = store.fingerprints()
    if not prefixes:
        return there
    chosen = []
    for text in prefixes:
        found = [fingerprint for fingerprint in there if fingerprint.startswith(text)]
        if not found:
            raise EngineCorruptError(f"{store} has no engine {text}.")
        if len(found) > 1:
            raise PermanentError(
                f"{text} means {len(found)} engines of {store}: write more digits."
            )
        chosen += found
    return chosen
