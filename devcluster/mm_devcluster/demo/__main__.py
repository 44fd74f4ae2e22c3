"""The command behind `make demo` and `make demo-down`."""

import argparse
import sys
import time
import traceback
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from mm_api.sentences import count
from mm_devcluster import addresses
from mm_devcluster.demo import evidence, settings
from mm_devcluster.demo.display import make_console, shown
from mm_devcluster.demo.estimates import Progress, expected_seconds, keep
from mm_devcluster.demo.graph import Failure, run_stages
from mm_devcluster.demo.questions import VIDEO, Answer, choose_questions, read_questions
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.stages import stages_of
from mm_devcluster.demo.target import CURRENT
from mm_devcluster.demo.teardown import remove_demo
from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.sources import ROOT

INTERRUPTED = 130  # the shell's code for SIGINT


def main() -> int:
    """Run the demo or remove it; exit code 0 when every answer was right."""
    options = _parser().parse_args()
    try:
        if options.command == "down":
            print(remove_demo(options.cluster, purge=options.purge))
            return 0
        return run_demo(
            settings.Options(
                options.cluster,
                options.operator_image,
                options.runtime_image,
                settings.chosen(options.family, options.backend),
                options.ip_family,
            )
        )
    except DevClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nstopped; `make demo` resumes where it stopped, `make demo-down` removes everything"
        )
        return INTERRUPTED


def run_demo(options: settings.Options) -> int:
    """Run every stage, then say what happened; 0 when all is right."""
    console = make_console()
    session = Session(options)
    answers: list[Answer] = []
    stages = stages_of(session, answers)
    began = time.monotonic()
    kind, expected = expected_seconds()
    progress = Progress(stages, expected)
    with shown(progress, console) as show:
        failures = run_stages(stages, show)
    keep(kind, progress)
    if answers:
        print_answers(console, answers)
    if failures:
        explain(console, session, failures)
        return 1
    console.print(f"\nDone after {time.monotonic() - began:.0f} s. It stays running. Try next:")
    for purpose, command in next_steps(session):
        console.print(f"\n{purpose}:\n  {command}", soft_wrap=True, markup=False)
    return 0


def print_answers(console: Console, answers: list[Answer]) -> None:
    """Print each image and question once, below it a line for each answer."""
    for question in dict.fromkeys(answer.question for answer in answers):
        console.print(f"\n{_relative(question.image)}\n  {question.text}", soft_wrap=True)
        for answer in answers:
            if answer.question != question:
                continue
            mark = "[green]right[/]" if answer.is_right else "[red]WRONG[/]"
            way = (
                f"to the first of {count(answer.pieces, 'piece')}" if answer.streamed else "in all"
            )
            milliseconds = answer.first_token_seconds * 1000
            words = f"{escape(repr(answer.text)):<32}{milliseconds:>5.0f} ms {way}"
            console.print(f"  {mark}  {words}", soft_wrap=True)
            if not answer.is_right:
                console.print(f"  expected {question.expected!r}", soft_wrap=True)


def explain(console: Console, session: Session, failures: tuple[Failure, ...]) -> None:
    """Say what failed, show what the cluster knows about it, and what to do."""
    for failure in failures:
        console.print(f"\nFAILED: {failure.stage.title.strip()}", style="red")
        console.print(str(failure.error), soft_wrap=True, markup=False)
        if not isinstance(failure.error, DevClusterError):
            console.print("This is a defect of the demo itself:")
            trace = "".join(traceback.format_exception(failure.error))
            console.print(trace, soft_wrap=True, markup=False)
    if session.found_target is not None:
        console.print()
        console.print(
            evidence.gather(session.found_target, session.options.family.model),
            soft_wrap=True,
            markup=False,
        )
    console.print(
        "\nFix it and run `make demo` again: it resumes where it stopped. "
        "`make demo-down` removes everything.",
        soft_wrap=True,
        markup=False,
    )


def next_steps(session: Session) -> tuple[tuple[str, str], ...]:
    """Return what a newcomer tries next: a purpose and its commands, each."""
    name, family = session.options.cluster, session.options.family
    where = f"{family.model} -n {settings.DEMO_NAMESPACE}"
    question = choose_questions(read_questions(family.samples), 1)[0]
    file = f"--{'video' if question.image.suffix == VIDEO else 'image'} {_relative(question.image)}"
    usual = name == settings.Options.cluster
    cluster = "" if usual else f" CLUSTER={name}"
    query = f'.venv/bin/mmctl ask {where} --text "{question.text}" \\\n    {file}'
    named = "" if usual else f" --name {name}"
    use = f"export KUBECONFIG=$(.venv/bin/mm-devcluster kubeconfig{named})"
    steps = [
        *([("Use its cluster, here with mmctl", use)] if name != CURRENT else []),
        ("Send a question of your own", query),
        ("See its state and its plan", f".venv/bin/mmctl status {where}"),
    ]
    if name != CURRENT and family.model == settings.MODEL:
        steps.append(("See replicas follow load (10 min)", f"make demo-autoscaling{cluster}"))
    return (*steps, ("Remove all of it; caches stay", f"make demo-down{cluster}"))


def _relative(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="from nothing to right answers about images")
    down = commands.add_parser("down", help="remove every trace of it")
    for command in (up, down):
        command.add_argument(
            "--cluster",
            default=settings.Options.cluster,
            help="name of a development cluster, or 'current' for the current kubectl context",
        )
    up.add_argument(
        "--family", choices=settings.FAMILIES, default=settings.FIRST, help="what is served"
    )
    up.add_argument(
        "--backend", choices=("Reference", "VLLM"), default="Reference", help="that serves it"
    )
    up.add_argument("--operator-image", default="", help="for 'current': one its nodes can pull")
    up.add_argument("--runtime-image", default="", help="for 'current': one its nodes can pull")
    up.add_argument(
        "--ip-family",
        type=addresses.Family,
        choices=tuple(addresses.Family),
        default=settings.Options.ip_family,
        help="addresses of the development cluster's node, pods and Services",
    )
    down.add_argument("--purge", action="store_true", help="delete the caches too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
