"""PURE: what a step of a build is: a module of ours, or a command of the plan."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_runtime.engine_build.build_paths import BuildPaths

COMMANDS = "mm_runtime.engine_build.commands"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a tool's output folder must hold; a tool may exit with 0 and leave something else."""

    folder: str
    """Relative to the working directory."""

    files: tuple[str, ...]
    """Not empty, by name; a file of the same pattern beyond them is one rank too many."""

    values: tuple[tuple[str, Any], ...] = ()
    """Dotted path in the folder's config.json -> value."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, run in a process of its own.

    Paths are relative to the working directory; a step may be run again from the start at any time
    (it overwrites what it left; what a tool left is removed first).
    """

    name: str
    module: str
    purpose: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    permanent_reason: BuildReason
    """Reason of the failure when the step says that another try would fail as well."""

    fingerprint: str
    """Digest of all that the outputs depend on: a journal entry with another one is void."""

    command: tuple[str, ...] = ()
    """A command of the plan, run word for word in the tree. Empty: `module` is run."""

    expected: tuple[Expected, ...] = ()

    def argv(self, python: str, source: str, paths: BuildPaths) -> tuple[str, ...]:
        if self.command:
            return self.command
        where = ("--source", source, "--store", str(paths.store))
        return (python, "-m", self.module, *where, "--fingerprint", paths.fingerprint)

    def folder(self, paths: BuildPaths) -> Path | None:
        """Return where the command line must be run; None: anywhere."""
        return paths.tree if self.command else None


def module_step(
    plan: BuildPlan,
    name: str,
    purpose: str,
    *,
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    permanent_reason: BuildReason = BuildReason.STEP_FAILED,
) -> Step:
    """Return a step that runs one module of `mm_runtime.engine_build.commands`."""
    return Step(
        name=name,
        module=f"{COMMANDS}.{name.replace('-', '_')}",
        purpose=purpose,
        inputs=inputs,
        outputs=outputs,
        permanent_reason=permanent_reason,
        fingerprint=_fingerprint(plan, name, inputs, outputs),
    )


def command_step(
    plan: BuildPlan,
    name: str,
    purpose: str,
    argv: list[str],
    inputs: tuple[str, ...],
    *made: Expected,
) -> Step:
    """Return a step that runs a command of the plan and expects its output."""
    outputs = tuple(one.folder for one in made)
    return Step(
        name=name,
        module="",
        purpose=purpose,
        inputs=inputs,
        outputs=outputs,
        permanent_reason=BuildReason.STEP_FAILED,
        fingerprint=_fingerprint(plan, name, inputs, outputs),
        command=tuple(argv),
        expected=made,
    )


def _fingerprint(
    plan: BuildPlan, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> str:
    identity = json.dumps([name, plan.fingerprint, plan.engine.builder_version, inputs, outputs])
    return hashlib.sha256(identity.encode()).hexdigest()
