"""`mmctl`, also `kubectl mm`: parses the command line, runs one command, returns its exit code.

Exit codes: 0 success, 1 the cluster or the work failed, 2 the request or the document is invalid,
3 the plan does not fit, 4 the model is not ready, 5 it differs from its checkpoint.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from mm_ctl.commands import (
    compare,
    plan,
    query,
    scaling,
    status,
    upload,
    validate,
)
from mm_ctl.documents import UsageError
from mm_operator.errors import ClusterError

COMMANDS = {
    "validate": validate,
    "plan": plan,
    "status": status,
    "ask": query,
    "compare": compare,
    "scaling": scaling,
    "upload": upload,
}
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
    return run_command(parser, COMMANDS, arguments)


def run_command(
    parser: argparse.ArgumentParser,
    modules: Mapping[str, ModuleType],
    arguments: Sequence[str] | None,
) -> int:
    """Run the one of some commands that the arguments name, and return its exit code.

    Each module has `HELP`, `configure` and `run`.
    """
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in modules.items():
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.configure(command)
    options = parser.parse_args(arguments)
    try:
        outcome = modules[options.command].run(options)
        return asyncio.run(outcome) if asyncio.iscoroutine(outcome) else int(outcome)
    except UsageError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return WRONG
    except ClusterError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe went away; nothing is left to say
        return FAILED
