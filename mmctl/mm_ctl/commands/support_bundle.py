"""`mmctl support-bundle`: what a maintainer needs to see, in one archive, without secrets.

Secrets are never read. Replaced are values of variables and flags that are named as secrets are,
and tokens in logs and URLs.
"""

import argparse
import io
import json
import re
import sys
import tarfile
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from mm_api import labels
from mm_api.v1alpha1.definition import RELEASE
from mm_ctl.commands.doctor import OPERATOR, examine
from mm_ctl.connection import Connection, add_connection_options, connection
from mm_ctl.documents import UsageError
from mm_operator.cluster.resources import CHILDREN, DEPLOYMENT, EVENT, MODEL, NODE, POD, Resource
from mm_operator.errors import ClusterError

LOG_LINES = 2000
HIDDEN = "(removed)"
OF_MODELS = f"{labels.APP_MANAGED_BY}={labels.MANAGED_BY_VALUE}"

_SECRET_NAME = re.compile(
    r"token(?!s|iz)|secret|passw|credential|api[-_]?key|access[-_]?key|authorization", re.IGNORECASE
)
_SECRET_TEXT = re.compile(
    r"(?i:(?<=Bearer )|(?<=Authorization: Basic ))\S+|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"
    r'|(?<="key":")[^"]+|(?<="key": ")[^"]+'  # of encoders, in serving plans
    r"|\bhf_\w{8,}|\bsk-[\w-]{8,}|\bAKIA[0-9A-Z]{12,}|\beyJ[\w-]+\.[\w-]+\.[\w-]+"
)
_SECRET_QUERY = re.compile(
    rf"([?&][^\s=&?]{{0,40}}(?:{_SECRET_NAME.pattern}|sig|key)[^\s=&?]{{0,40}}=)[^\s&\"']+",
    re.IGNORECASE,
)
_NOISE = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file", type=Path, help="archive to write; default: mmctl-bundle-TIME.tar.gz"
    )
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="models of all namespaces"
    )
    add_connection_options(parser)


async def run(options: argparse.Namespace) -> int:
    """Write the archive and print its name; what may not be read is listed in it."""
    target = options.file or Path(time.strftime("mmctl-bundle-%Y%m%d-%H%M%S.tar.gz"))
    if target.exists():
        raise UsageError(f"{target} exists: give another --file")
    with tarfile.open(target, "w:gz") as archive:
        async with connection(options) as there:
            where = None if options.all_namespaces else there.namespace
            async for name, text in _files(there, where):
                content = hidden_text(text).encode()
                entry = tarfile.TarInfo(f"bundle/{name}")
                entry.size, entry.mtime = len(content), int(time.time())
                archive.addfile(entry, io.BytesIO(content))
    print(f"{target}: look through it before you send it")
    return 0


async def _files(there: Connection, where: str | None) -> AsyncIterator[tuple[str, str]]:
    """Yield the name and the text of each file."""
    yield "version.txt", f"mmctl {RELEASE}, Python {sys.version}\n"
    findings = await examine(there)
    yield "doctor.json", json.dumps(list(map(asdict, findings)), indent=2)
    objects: list[tuple[Resource, str | None, str]] = [(MODEL, where, ""), (NODE, None, "")]
    objects += [(kind, where, OF_MODELS) for kind in (*CHILDREN, POD)]
    objects += [(kind, None, OPERATOR) for kind in (DEPLOYMENT, POD)]
    objects += [(EVENT, where, "")]
    unread = []
    for kind, namespace, selector in objects:
        prefix = "operator" if selector == OPERATOR else "models"
        try:
            items = await there.list(kind, namespace, selector)
            yield f"{prefix}/{kind.plural}.yaml", yaml.safe_dump_all(map(hidden, items))
            for pod in items if kind is POD else ():
                async for name, text in _logs(there, pod):
                    yield f"{prefix}/logs/{name}", text
        except ClusterError as error:
            unread.append(f"{prefix}/{kind.plural}: {error}")
    yield "unread.txt", "\n".join(unread)


async def _logs(there: Connection, pod: dict[str, Any]) -> AsyncIterator[tuple[str, str]]:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    spec = pod["spec"]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        try:
            text = await there.client.log(namespace, name, container["name"], LOG_LINES)
        except ClusterError as error:  # its node may be gone, where others' are there
            text = f"cannot be read: {error}"
        yield f"{namespace}/{name}/{container['name']}.log", text


def hidden(value: Any) -> Any:
    """Return a document with values that may be secret replaced, and without noise."""
    if isinstance(value, dict):
        named = str(value.get("name", "")) if "value" in value else ""
        return {
            key: HIDDEN if key == "value" and _SECRET_NAME.search(named) else hidden(item)
            for key, item in value.items()
            if key not in _NOISE
        }
    if isinstance(value, list):
        return [
            HIDDEN if _is_secret_flag(before) and not str(item).startswith("--") else hidden(item)
            for before, item in pairwise(["", *value])
        ]
    if isinstance(value, str):
        flag, given, _ = value.partition("=")
        return f"{flag}={HIDDEN}" if given and _is_secret_flag(flag) else hidden_text(value)
    return value


def _is_secret_flag(value: Any) -> bool:
    return isinstance(value, str) and bool(
        re.match("--[^=]+$", value) and _SECRET_NAME.search(value)
    )


def hidden_text(text: str) -> str:
    """Return a text with tokens, keys and passwords of URLs replaced."""
    return _SECRET_QUERY.sub(rf"\1{HIDDEN}", _SECRET_TEXT.sub(HIDDEN, text))
