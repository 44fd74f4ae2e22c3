"""``mm-devcluster``: one file per command, each thin over the Python interface.

A command module has ``HELP``, ``configure(parser)`` and ``run(options) -> exit code``.
"""

import argparse
import sys
from collections.abc import Sequence

from mm_devcluster.cli import build, down, kubeconfig, kubectl, load_image, logs, status, up
from mm_devcluster.errors import DevClusterError, PartFailedError

COMMANDS = {
    "up": up,
    "down": down,
    "status": status,
    "load-image": load_image,
    "kubeconfig": kubeconfig,
    "kubectl": kubectl,
    "logs": logs,
    "build": build,
}
FAILED = 1
UNUSABLE = 3  # the machine or the request is at fault: trying again changes nothing
INTERRUPTED = 130  # as a shell reports SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="mm-devcluster",
        description="A real Kubernetes on this machine, for the demo and for tests.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        command.add_argument(
            "--name", default="dev", help="name of the cluster (default: %(default)s)"
        )
        module.configure(command)
    options = parser.parse_args(arguments)
    try:
        return int(COMMANDS[options.command].run(options))
    except DevClusterError as error:
        print(f"mm-devcluster: {error}", file=sys.stderr)
        return FAILED if isinstance(error, PartFailedError) else UNUSABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return FAILED
