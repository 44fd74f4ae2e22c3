"""`mmctl`, also `kubectl mm`: parses the command line, runs one command, returns its exit code.

Exit codes: 0 success, 1 the cluster or the work failed, 2 the request or the document is invalid,
3 the plan does not fit, 4 the model is not ready, 5 it differs from its checkpoint. A command's
module is imported when it is the one that runs: help and completion need none.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from mm_ctl.documents import UsageError
from mm_operator.errors import ClusterError, SpecError

COMMANDS = {
    "init": "write a manifest with comments for a checkpoint, planned for a GPU that holds it",
    "validate": "check resources in a file without a cluster: schema, rules, unsupported fields",
    "plan": "compute limits, memory, pools and build commands of a resource from its checkpoint",
    "status": "show the state of a model in sentences, or of all models (-A, -w)",
    "ui": "show models on a page in the browser: life, memory, scaling, Events, a question",
    "logs": "print the logs of the stage that a model is at: inspection, build or servers",
    "doctor": "check the cluster and a namespace: GPUs, storage, Prometheus, quotas, policies",
    "ask": "query a model about text, images, a video or audio",
    "compare": "compare a running model with transformers in float32, by 20 prompts",
    "rollout": "show a canary rollout, or end it",
    "scaling": "explain the replicas of a model",
    "cost": "show what models cost, in total and for 1,000 requests",
    "upload": "copy a local checkpoint into a PersistentVolumeClaim",
    "support-bundle": "write what a maintainer needs to see into an archive, without secrets",
    "completion": "print the completion script of a shell",
    "version": "print the version of mmctl",
}
MODULES = {"ask": "query", "support-bundle": "support_bundle"}
"""Command -> the name of its module, where it has another one."""

FAILED = 1
WRONG = 2
INTERRUPTED = 130
"""As a shell reports SIGINT."""


def main(arguments: Sequence[str] | None = None) -> int:
    called = Path(sys.argv[0]).name
    parser = argparse.ArgumentParser(
        prog="kubectl mm" if called == "kubectl-mm" else "mmctl",
        description="Plans, validates, uploads for and explains MultimodalModel resources.",
    )
    return run_command(parser, "mm_ctl.commands", COMMANDS, arguments)


def complete_for_kubectl() -> None:
    """Print what may follow `kubectl mm`, as kubectl reads it from `kubectl_complete-mm`."""
    line = " ".join(["mmctl", *sys.argv[1:]])
    os.environ |= {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    os.environ |= {"_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stdout"}
    main(sys.argv[1:])


def run_command(
    parser: argparse.ArgumentParser,
    package: str,
    helps: Mapping[str, str],
    arguments: Sequence[str] | None,
) -> int:
    """Run the one of some commands that the arguments name, and return its exit code.

    Args:
        parser: Of the program.
        package: Its modules have the names of the commands, and `configure` and `run`.
        helps: Command -> what it is for.
        arguments: None: those of the process.
    """
    completed = os.environ.get("COMP_LINE") if "_ARGCOMPLETE" in os.environ else None
    given = completed.split()[1:] if completed else sys.argv[1:] if arguments is None else arguments
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in helps.items():
        command = commands.add_parser(name, help=text, description=text)
        if name in given:
            _module(package, name).configure(command)
    if "_ARGCOMPLETE" in os.environ:
        import_module("argcomplete").autocomplete(parser)
    options = parser.parse_args(arguments)
    try:
        outcome = _module(package, options.command).run(options)
        return asyncio.run(outcome) if asyncio.iscoroutine(outcome) else int(outcome)
    except (UsageError, SpecError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return WRONG
    except ClusterError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe went away; nothing is left to say
        return FAILED
    except (OSError, OverflowError) as error:  # a full disk, a port that is taken or is none
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return FAILED


def _module(package: str, command: str) -> ModuleType:
    return import_module(f"{package}.{MODULES.get(command, command)}")
