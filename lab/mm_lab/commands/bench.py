"""`mm-lab bench ADDRESS`: loads an OpenAI endpoint and reports latencies, goodput and errors."""

import argparse
import asyncio
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp

from mm_api.v1alpha1 import duration
from mm_ctl.documents import UsageError
from mm_lab.loadtest import arrivals, drive, table
from mm_lab.loadtest.arrivals import Due
from mm_lab.loadtest.client import Client, connection, models_of
from mm_lab.loadtest.grid import Cell, Grid
from mm_lab.loadtest.grid import as_table as grid_table
from mm_lab.loadtest.image import data_url
from mm_lab.loadtest.mix import Choice, Mix, MixError, Requests, random_images
from mm_lab.loadtest.page import as_page
from mm_lab.loadtest.report import OBJECTIVES, BenchReport, summarise
from mm_lab.loadtest.requests_csv import write_csv
from mm_lab.loadtest.results import Result
from mm_lab.loadtest.scenarios import DEFAULTS, Scenario, requests_of
from mm_lab.loadtest.side_by_side import as_lines, ratios
from mm_lab.loadtest.trace import TraceError, read_trace

WELL, FAILED = 0, 1

TOKEN_VARIABLE = "MM_LAB_TOKEN"  # noqa: S105  # the variable's name
LIST_SECONDS = 30.0
PROGRESS_SECONDS = 5.0
LINE_SECONDS = 0.5
"""On a terminal one line is rewritten this often."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.epilog = (
        f"A token that the endpoint wants is read from ${TOKEN_VARIABLE}, never from the command "
        "line. Numbers with weights are written VALUE[:WEIGHT],...: --images 0:3,1:7 is an image "
        "in seven of ten requests. Requests that fail do not change the exit code: they are in "
        "the report."
    )
    parser.add_argument("address", help="the endpoint, for example http://HOST/v1")
    parser.add_argument("--model", help="its model; may be left out where an endpoint serves one")
    parser.add_argument(
        "--scenario",
        choices=[one.value for one in Scenario],
        help="dashinfer: a guide's 100 requests by 10 workers; multi-turn: chats about one image; "
        "video: --video in each request; enc-dec: texts for /v1/completions. Options that are "
        "given win over those of the scenario",
    )
    parser.add_argument("--turns", type=int, default=4, help="of a chat of multi-turn; default 4")
    parser.add_argument("--video", type=Path, help="MP4 file of the scenario video")
    parser.add_argument("--requests", type=int, help="closed loop: ends after so many")
    parser.add_argument(
        "--grid",
        metavar="USERSxWORDS",
        help="closed loops one after another, of each number of users with each number of words, "
        "for example 1,4,8x0,64,256; each takes --duration, or --requests",
    )
    load = parser.add_argument_group("the load: one of").add_mutually_exclusive_group()
    load.add_argument("--users", type=int, help="closed loop: each sends again when answered")
    load.add_argument("--rate", type=float, help="open loop: Poisson arrivals, requests a second")
    load.add_argument("--trace", type=Path, help="open loop: a CSV of requests or of rates")
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the trace in one")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies a trace's rates")
    parser.add_argument("--duration", default="30s", help="of the measured part; default 30s")
    parser.add_argument("--csv", type=Path, help="a new file: a line for each request")
    parser.add_argument("--html", type=Path, help="a new file: the table and plots")
    parser.add_argument(
        "--against", metavar="ADDRESS", help="a second endpoint, under the same load meanwhile"
    )
    parser.add_argument("--warm-up", default="", help="before it, not counted, for example 5s")
    parser.add_argument("--images", help="images in a request; default 1")
    parser.add_argument("--words", help="filler words before the prompt; default 0")
    parser.add_argument("--max-tokens", help="longest answer; default 32")
    parser.add_argument("--temperature", type=float, help="of each request; default 0")
    parser.add_argument("--prompt", help="text of each question; default: What is in the image?")
    parser.add_argument(
        "--picture-size", type=int, default=224, dest="image_size", help="edge of generated images"
    )
    parser.add_argument(
        "--picture", type=Path, action="append", dest="image_files", help="a file to send instead"
    )
    parser.add_argument(
        "--slo",
        action="append",
        default=[],
        metavar="NAME=LATENCY",
        help=f"objective for the goodput: {', '.join(OBJECTIVES)}; for example ttft=500ms",
    )
    parser.add_argument("--timeout", default="60s", help="of one request; default 60s")
    parser.add_argument(
        "--new-connections",
        action="store_true",
        help="a connection for each request, as new users have: a Service spreads those evenly, "
        "and leaves the ones that are kept where they are",
    )
    parser.add_argument("--most-in-flight", type=int, default=2000, help="more are not sent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


async def run(options: argparse.Namespace) -> int:
    """Load the endpoint and print the report; exit code 1 when nothing was answered."""
    try:
        if options.grid is not None:
            return await _run_grid(options)
        settings = _Settings(options)
        _check_new_files(options)
        token = os.environ.get(TOKEN_VARIABLE)
        async with connection(token, keep=not options.new_connections) as session:
            models = [
                (one, options.model or await _only_model(session, one))
                for one in (options.address, options.against)
                if one is not None
            ]
            loads = [(one, settings.mix(model)) for one, model in models]
            found = await asyncio.gather(*(_measured(session, settings, *one) for one in loads))
    except (MixError, TraceError) as error:
        raise UsageError(str(error)) from error
    reports = [report for report, _ in found]
    _show(options, reports, [results for _, results in found])
    for report in reports:
        if report.requests and not report.answered:
            print(f"{report.endpoint}: no request was answered: {report.errors}", file=sys.stderr)
    return WELL if all(one.answered or not one.requests for one in reports) else FAILED


async def _run_grid(options: argparse.Namespace) -> int:
    """Load the endpoint with one loop after another; print a table of them, or a list of reports.

    Raises:
        UsageError: an option that a grid has not.
        MixError: it is no grid.
    """
    for name in ("users", "words", "rate", "trace", "against", "csv", "html"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} does not go with --grid: leave it out")
    loops: dict[Cell, _Settings] = {}
    for users, words in Grid.parse(options.grid).cells:
        changed = {"users": users, "words": str(words)}
        loops[users, words] = _Settings(argparse.Namespace(**{**vars(options), **changed}))
    reports: dict[Cell, BenchReport] = {}
    token = os.environ.get(TOKEN_VARIABLE)
    async with connection(token, keep=not options.new_connections) as session:
        model = options.model or await _only_model(session, options.address)
        for cell, settings in loops.items():
            mix = settings.mix(model)
            reports[cell], _ = await _measured(session, settings, options.address, mix)
    found = reports.values()
    machine = "[" + ",\n".join(one.to_json(indent=2) for one in found) + "]"
    print(machine if options.output == "json" else grid_table(reports))
    return WELL if all(one.answered or not one.requests for one in found) else FAILED


def _show(
    options: argparse.Namespace, reports: list[BenchReport], results: list[list[Result]]
) -> None:
    """Print the report, or that of two endpoints, and write the files that are requested."""
    if len(reports) == 1:
        text, machine = table.as_table(reports[0]), reports[0].to_json(indent=2)
    else:
        text = "\n".join(as_lines(reports, list(ratios(results[0], results[1], options.seed))))
        machine = "[" + ",\n".join(one.to_json(indent=2) for one in reports) + "]"
    print(machine if options.output == "json" else text)
    if options.csv is not None:
        _write("--csv", options.csv, lambda path: write_csv(path, results[0]))
    if options.html is not None:
        runs = {one.endpoint: found for one, found in zip(reports, results, strict=True)}
        page = as_page(f"mm-lab bench: {reports[0].model}", text, runs)
        _write("--html", options.html, lambda path: _new_file(path, page))


class _Settings:
    """The options with their meanings.

    Raises:
        UsageError: an option is not what its help says.
        MixError: a list of choices is wrong.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.scenario = Scenario(options.scenario) if options.scenario else None
        _with_defaults(options, self.scenario)
        for address in filter(None, (options.address, options.against)):
            if not address.startswith(("http://", "https://")):
                raise UsageError(
                    f"{address} is not an address: write it with http:// or https://, for "
                    "example http://HOST/v1"
                )
        self.warm_up = _seconds("--warm-up", options.warm_up) if options.warm_up else 0.0
        self.end = self.warm_up + _seconds("--duration", options.duration)
        self.timeout = _seconds("--timeout", options.timeout)
        self.targets = dict(_objective(text) for text in options.slo)
        self.images, self.words, self.max_tokens = (
            Choice.parse(text) for text in (options.images, options.words, options.max_tokens)
        )
        if options.against is not None and options.csv is not None:
            raise UsageError("--csv has the requests of one endpoint: leave --against out")
        for option, value in (
            ("--users", options.users),
            ("--rate", options.rate),
            ("--speed", options.speed),
            ("--scale", options.scale),
            ("--picture-size", options.image_size),
            ("--most-in-flight", options.most_in_flight),
            ("--turns", options.turns),
            ("--requests", options.requests),
            ("--temperature", options.temperature or None),
        ):
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{option} is {value}: it must be above zero, and finite")

    def mix(self, model: str) -> Mix:
        """Return what the requests hold."""
        options = self.options
        files = tuple(_image(path) for path in options.image_files or ())
        return Mix(
            model=model,
            prompt=options.prompt,
            images=self.images,
            words=self.words,
            max_tokens=self.max_tokens,
            image_urls=files or random_images(options.image_size, options.seed),
            temperature=options.temperature,
        )

    def requests(self, mix: Mix) -> Requests:
        """Return what users of a closed loop send."""
        path: Path | None = self.options.video
        url = ""
        if self.scenario is Scenario.VIDEO:
            if path is None:
                raise UsageError("--scenario video needs --video: give an MP4 file")
            url = _data_url(path, "--video", "video/mp4")
        return requests_of(self.scenario, mix, turns=self.options.turns, video_url=url)

    def plan(self) -> list[Due]:
        """Return when requests are due in an open loop.

        Raises:
            TraceError: the trace is none.
        """
        options = self.options
        if options.rate:
            return list(arrivals.poisson(options.rate, self.end, options.seed))
        return list(
            read_trace(
                options.trace,
                speed=options.speed,
                scale=options.scale,
                seconds=self.end,
                seed=options.seed,
            )
        )

    def description(self) -> str:
        """Return the load as text."""
        options = self.options
        if options.users:
            named = f"{options.scenario}: " if options.scenario else ""
            most = f", {options.requests} requests" if options.requests else ""
            long = f", {options.words} words" if options.grid else ""
            return f"{named}closed loop, {options.users} users{long}{most}"
        if options.rate:
            return f"open loop, Poisson at {options.rate:g} requests a second"
        return f"open loop, {options.trace.name} at {options.speed:g} x speed"


async def _measured(
    session: aiohttp.ClientSession, settings: _Settings, address: str, mix: Mix
) -> tuple[BenchReport, list[Result]]:
    """Load one endpoint; return the report and what became of each request of it."""
    options = settings.options
    plan = [] if options.users else settings.plan()
    began = time.monotonic()

    def clock() -> float:
        return time.monotonic() - began

    client = Client(session, address, timeout_seconds=settings.timeout, clock=clock)
    run_ = drive.Run()
    shown = None if options.quiet else asyncio.create_task(_progress(run_, clock))
    try:
        if options.users:
            await drive.closed_loop(
                client,
                settings.requests(mix),
                run_,
                users=options.users,
                seconds=settings.end,
                seed=options.seed,
                clock=clock,
                most=options.requests,
            )
        else:
            await drive.open_loop(
                client,
                mix.questions(iter(plan), options.seed),
                run_,
                clock=clock,
                most_in_flight=options.most_in_flight,
            )
    finally:
        if shown:
            shown.cancel()
    ended = min(settings.end, clock()) if options.requests else settings.end
    report = summarise(
        run_.results,
        endpoint=address,
        model=mix.model,
        load=settings.description(),
        seed=options.seed,
        begin=settings.warm_up,
        end=ended,
        targets=settings.targets,
    )
    return report, [one for one in run_.results if settings.warm_up <= one.due < ended]


async def _progress(run_: drive.Run, clock: drive.Clock) -> None:
    """Report progress: one line rewritten on a terminal, else a line every few seconds."""
    terminal = sys.stderr.isatty()
    while True:
        await asyncio.sleep(LINE_SECONDS if terminal else PROGRESS_SECONDS)
        failed = sum(1 for result in run_.results if result.error)
        recent = [one.time_to_first_token for one in run_.results[-50:] if not one.error]
        times = sorted(one for one in recent if one is not None)
        middle = f", first token {times[len(times) // 2] * 1000:.0f} ms" if times else ""
        line = (
            f"{clock():5.0f} s: {len(run_.results) - failed} answered, {failed} failed, "
            f"{run_.in_flight} under way{middle}"
        )
        print(f"\r{line:<79}" if terminal else line, end="" if terminal else "\n", file=sys.stderr)
        sys.stderr.flush()


async def _only_model(session: aiohttp.ClientSession, address: str) -> str:
    try:
        names = await models_of(session, address, LIST_SECONDS)
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{address}/models gives no list of models ({type(error).__name__}: {error}): is the "
            "address right, up to and with /v1? or name the model with --model"
        ) from error
    if len(names) != 1:
        raise UsageError(f"{address} serves {', '.join(names) or 'nothing'}: choose with --model")
    return names[0]


def _seconds(option: str, text: str) -> float:
    try:
        return duration.parse(text).total_seconds()
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _objective(text: str) -> tuple[str, float]:
    name, _, target = text.partition("=")
    if name not in OBJECTIVES or not target:
        raise UsageError(
            f"--slo {text}: write for example ttft=500ms; names: {', '.join(OBJECTIVES)}"
        )
    return name, _seconds(f"--slo {name}", target)


def _image(path: Path) -> str:
    kind = {".png": "png", ".gif": "gif", ".webp": "webp"}.get(path.suffix.lower(), "jpeg")
    return _data_url(path, "--picture", f"image/{kind}")


def _data_url(path: Path, option: str, kind: str) -> str:
    try:
        return data_url(path.read_bytes(), kind)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error


def _check_new_files(options: argparse.Namespace) -> None:
    """Refuse a file that could not be written after the load, before the load is sent.

    Raises:
        UsageError: the file exists, or its folder is missing or cannot be written.
    """
    for option, path in (("--csv", options.csv), ("--html", options.html)):
        if path is None:
            continue
        try:
            _new_file(path, "")
            path.unlink()
        except FileExistsError:
            raise UsageError(f"{option} {path}: it exists already: name a new file") from None
        except OSError as error:
            raise UsageError(
                f"{option} {path}: {error.strerror}: name a file that can be written"
            ) from error
    if options.csv is not None and options.csv == options.html:
        raise UsageError(f"--csv and --html both name {options.csv}: name two files")


def _write(option: str, path: Path, write: Callable[[Path], None]) -> None:
    try:
        write(path)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error


def _new_file(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


def _with_defaults(options: argparse.Namespace, scenario: Scenario | None) -> None:
    """Set what the command line leaves out.

    Raises:
        UsageError: no load is given, or one that the scenario has not.
    """
    open_loop = options.rate is not None or options.trace is not None
    if scenario is not None and open_loop:
        raise UsageError("a scenario is a closed loop: give --users, or leave it out")
    known = DEFAULTS[scenario] if scenario else {}
    usual = {"images": "1", "words": "0", "max_tokens": "32", "prompt": "What is in the image?"}
    kinds = {"users": int, "requests": int, "temperature": float}
    for name, value in {**usual, "temperature": "0", **known}.items():
        if getattr(options, name) is None:
            setattr(options, name, kinds.get(name, str)(value))
    if options.users is None and not open_loop:
        if scenario is None:
            raise UsageError("no load is given: one of --users, --rate, --trace, or a --scenario")
        options.users = 1
    if options.requests is not None and open_loop:
        raise UsageError("--requests ends a closed loop: use it with --users")
