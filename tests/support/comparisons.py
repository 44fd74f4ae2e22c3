"""`mmctl compare` as a process, and a model of the API server that it may compare."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.model_namespace import Api
from support.staged import children, inspected

URL = "http://llava.demo.svc/v1"
FINGERPRINT = "a" * 64


def deployment(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    return children(inspected(changes, built=True))["Deployment/server"]


def set_status(api: Api, *, ready: str = "True", rolls: str = "False") -> None:
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": "A",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind, status in (("Available", ready), ("RollingOut", rolls))
    ]
    for one in conditions:
        one["observedGeneration"] = 1  # type: ignore[assignment]  # a number among texts
    status = {"conditions": conditions, "url": URL, "plan": {"fingerprint": FINGERPRINT}}
    body = json.dumps({"status": status})
    api.kubectl(
        *("patch", "multimodalmodel", "llava", "--subresource=status", "--type=merge", "-p", body)
    )


@contextmanager
def comparing(api: Api, *more: str, config: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    command = [str(Path(sys.executable).with_name("mmctl")), "compare", "llava", "--reference"]
    command += ["-n", api.namespace, "--kubeconfig", str(config or api.cluster.kubeconfig)]
    with subprocess.Popen(
        [*command, "--timeout", "60s", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def outcome(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors
