"""The cluster that the demo works on, reached as a user would: through a kubeconfig."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_devcluster.binaries import ensure_binaries
from mm_devcluster.demo.graph import Report
from mm_devcluster.errors import DevClusterError
from mm_devcluster.paths import state_dir

CURRENT = "current"
"""The name that means: the cluster of the current kubectl context, which is not ours."""
REQUEST_TIMEOUT = 60.0  # seconds; one kubectl call that does not wait for anything


@dataclass(frozen=True)
class Target:
    """A cluster with a kubeconfig that holds exactly one context: nothing can change under it."""

    name: str
    kubeconfig: Path
    kubectl: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment for programs that work on this cluster, and no other."""
        path = os.pathsep.join((str(self.kubectl.parent), os.environ.get("PATH", os.defpath)))
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def call(
        self, *arguments: str, stdin: str | None = None, timeout: float = REQUEST_TIMEOUT
    ) -> str:
        """Run kubectl and return what it printed.

        Raises:
            DevClusterError: kubectl failed or took longer than ``timeout`` seconds.
        """
        return run_program([str(self.kubectl), *arguments], self.environment, stdin, timeout)

    def document(self, *arguments: str) -> dict[str, Any]:
        """Run ``kubectl get ... -o json`` and return the document, {} when it does not exist."""
        text = self.call("get", *arguments, "--ignore-not-found", "-o", "json")
        parsed: dict[str, Any] = json.loads(text) if text.strip() else {}
        return parsed

    @contextmanager
    def following(self, *arguments: str) -> Iterator["Followed"]:
        """Run ``kubectl get ... --watch`` and yield the newest state of the one object it names."""
        command = [str(self.kubectl), "get", *arguments, "--watch", "-o", "json"]
        with subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                yield Followed(process)
            finally:
                process.terminate()

    def apply(self, *documents: dict[str, Any], manager: str = "mm-demo") -> None:
        """Apply documents server-side, as a manager of fields."""
        bundle = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        arguments = ("apply", "--server-side", "--force-conflicts", f"--field-manager={manager}")
        self.call(*arguments, "-f", "-", stdin=json.dumps(bundle))


class Followed:
    """One object, as a watch prints it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._changed = threading.Event()
        self._newest: dict[str, Any] | None = None
        """None: the watch has said nothing, or has ended."""
        self._lines = process.stdout or ()
        threading.Thread(target=self._read, daemon=True).start()

    def newest(self, timeout: float) -> dict[str, Any] | None:
        """Wait for a change, and not longer than a time; return the newest state, if there is."""
        self._changed.wait(timeout)
        self._changed.clear()
        return self._newest

    def _read(self) -> None:
        document = ""
        for line in self._lines:
            document += line
            if line == "}\n":  # kubectl indents all but the last line of a document
                self._newest, document = json.loads(document), ""
                self._changed.set()
        self._newest = None
        self._changed.set()


def run_program(
    command: list[str], environment: dict[str, str], stdin: str | None, timeout: float
) -> str:
    """Run a program to its end and return its standard output.

    Raises:
        DevClusterError: It failed; its own words are in the message.
    """
    shown = f"{Path(command[0]).name} {' '.join(command[1:])}"
    try:
        done = subprocess.run(
            command,
            env=environment,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DevClusterError(f"not done after {timeout:.0f} s: {shown}") from error
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip())[-3000:]
        # The last line is the verdict, of kubectl as of a Python program.
        verdict = words.splitlines()[-1] if words else f"exit code {done.returncode}"
        raise DevClusterError(f"{verdict}\n{words}\n(from: {shown})")
    return done.stdout


def current_target(report: Report) -> Target:
    """Pin the current kubectl context into a kubeconfig of the demo's own.

    Raises:
        DevClusterError: There is no current context, or its cluster does not answer.
    """
    found = shutil.which("kubectl")
    report("kubectl" if found else "compiling kubectl (once; minutes)")
    kubectl = Path(found) if found else ensure_binaries(("kubectl",))["kubectl"]
    try:
        arguments = ["config", "view", "--minify", "--flatten", "--raw", "-o", "json"]
        content = run_program([str(kubectl), *arguments], dict(os.environ), None, REQUEST_TIMEOUT)
    except DevClusterError as error:
        raise DevClusterError(
            f"CLUSTER=current needs a current kubectl context, and there is none: {error}\n"
            "Choose one (kubectl config use-context NAME), or leave CLUSTER=current out: "
            "make demo then starts a cluster of its own"
        ) from error
    path = state_dir() / "current" / "kubeconfig"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    path.write_text(content, encoding="utf-8")
    target = Target(CURRENT, path, kubectl)
    context = json.loads(content).get("current-context", "?")
    report(f"contacting the API server of context {context}")
    target.call("version", "-o", "json")
    return target
