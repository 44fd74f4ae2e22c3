"""`mmctl completion SHELL`: the script that completes commands, options and names of models."""

import argparse

import argcomplete


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    parser.epilog = (
        'bash and zsh: eval "$(mmctl completion SHELL)"; fish: mmctl completion fish | source'
    )


def run(options: argparse.Namespace) -> int:
    print(argcomplete.shellcode(["mmctl"], shell=options.shell))  # type: ignore[no-untyped-call]
    return 0
