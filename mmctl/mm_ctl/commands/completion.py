"""`mmctl completion SHELL`: the script that completes commands, options and names of models."""

import argparse

from argcomplete.shell_integration import shellcode


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    parser.epilog = (
        'bash and zsh: eval "$(mmctl completion SHELL)"; fish: mmctl completion fish | source'
    )


def run(options: argparse.Namespace) -> int:
    print(shellcode(["mmctl"], shell=options.shell))
    return 0
