"""`mm-runtime inspect|build|serve|gateway|compare|store|doctor`: parse, call, exit code.

Modules of a command are imported when it runs: inspect must not pay for the imports of the server.
"""

import argparse
import getpass
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from mm_api.contract import (
    GATEWAY_PORT,
    GRPC_PORT,
    HTTP_PORT,
    METRICS_PORT,
    REPOSITORY,
    Command,
    ExitCode,
    Flag,
)
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildResult
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime import settings
from mm_runtime.base.documents import read_document, write_termination_message
from mm_runtime.base.time_limit import time_limit
from mm_runtime.doctor.cli import add_doctor
from mm_runtime.errors import (
    InspectRefusedError,
    PermanentError,
    RuntimeCommandError,
)
from mm_runtime.store.cli import add_store, open_store

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (its only name)

log = logging.getLogger("mm_runtime")

SOURCE_HELP = "directory with config.json, hf://OWNER/NAME@REVISION or s3://BUCKET/PREFIX"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `ExitCode`)."""
    given = sys.argv[1:] if argv is None else argv
    arguments = parser().parse_args(given, argparse.Namespace(given=given))
    logging.basicConfig(
        level=arguments.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    name_user(os.environ)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        with time_limit(os.environ) as limit:
            return limit.code(command(arguments))
    except RuntimeCommandError as error:
        log.error("%s", error)  # noqa: TRY400 (the message is written for a person)
        _leave_message(arguments, str(error))
        return error.exit_code
    except OSError as error:
        log.exception("%s", error.strerror)
        _leave_message(arguments, str(error))
        return ExitCode.RETRY


def _leave_message(arguments: argparse.Namespace, text: str) -> None:
    write_termination_message(getattr(arguments, "termination_log", None), text)


def parser() -> argparse.ArgumentParser:
    """Return the command line's definition."""
    root = argparse.ArgumentParser(
        prog=Command.PROGRAM, description="Inspect, build and serve one multimodal model."
    )
    root.add_argument(
        "--log-level",
        default=os.environ.get("MM_LOG_LEVEL", "info").lower(),
        choices=("debug", "info", "warning", "error"),
    )
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    _add_inspect(commands)
    _add_build(commands)
    _add_serve(commands)
    _add_gateway(commands)
    _add_compare(commands)
    add_store(commands)
    add_doctor(commands)
    return root


def _add_inspect(commands: "Commands") -> None:
    command = commands.add_parser(
        Command.INSPECT, help="read a checkpoint's small files, print facts"
    )
    command.add_argument(Flag.SOURCE, required=True, help=SOURCE_HELP)
    command.add_argument(Flag.FAMILY, help="expected family; found from config.json when absent")
    command.add_argument(Flag.ALLOW_PICKLE, action="store_true")
    _add_adapters(command)
    command.add_argument(Flag.TRUST_REMOTE_CODE, action="store_true")
    command.add_argument(Flag.TERMINATION_LOG, type=Path, help="also write the result here")
    command.set_defaults(command=_inspect)


def _add_adapters(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        Flag.ADAPTER,
        type=_adapter,
        action="append",
        default=[],
        metavar="NAME=SOURCE",
        help="a LoRA adapter and where it is, written as --source is; may be given several times",
    )


def _adapter(text: str) -> tuple[str, str]:
    name, separator, source = text.partition("=")
    if not (name and separator and source):
        raise argparse.ArgumentTypeError(f"{text!r} is not an adapter; expected NAME=SOURCE")
    return name, source


def _add_build(commands: "Commands") -> None:
    command = commands.add_parser(Command.BUILD, help="build an engine into a store")
    command.add_argument(Flag.PLAN, type=Path, required=True, help="BuildPlan as JSON")
    command.add_argument(Flag.PLAN_SHA256, help="digest of that file; another plan is refused")
    command.add_argument(Flag.SOURCE, required=True, help=SOURCE_HELP)
    _add_adapters(command)
    command.add_argument(Flag.STORE, required=True, help="directory or s3://BUCKET/PREFIX")
    command.add_argument(Flag.WORK, type=Path, help="with a bucket: directory to build in")
    command.add_argument(Flag.TERMINATION_LOG, type=Path, help="also write the result here")
    command.add_argument(
        "--step-timeout", type=float, default=settings.STEP_SECONDS, help="seconds for one step"
    )
    command.add_argument(Flag.HOLDER, default="", help="what builders that wait for this one read")
    command.add_argument(
        "--trtllm-root",
        type=Path,
        default=settings.trtllm_root(),
        help="backend TensorRT: folder that holds TensorRT-LLM's examples",
    )
    command.add_argument("--dry-run", action="store_true", help="print the steps and stop")
    command.set_defaults(command=_build)


def _add_serve(commands: "Commands") -> None:
    command = commands.add_parser(Command.SERVE, help="serve an engine with its server")
    _add_documents(command)
    command.add_argument(
        Flag.ROLE,
        choices=("server", "encoder"),
        default="server",
        help="encoder: only encode images, for the servers of the same model",
    )
    command.add_argument(Flag.REPOSITORY, type=Path, default=Path(REPOSITORY))
    command.add_argument(
        Flag.ADDRESS, default="127.0.0.1", help="where Triton listens; it has no authentication"
    )
    command.add_argument(Flag.GRPC_ADDRESS, default="", help="of gRPC alone; default: --address")
    command.add_argument(
        Flag.PAGE_ADDRESS, default="", help="of metrics and health, 0.0.0.0 in a pod; see --address"
    )
    command.add_argument(Flag.HTTP_PORT, type=int, default=HTTP_PORT)
    command.add_argument(Flag.GRPC_PORT, type=int, default=GRPC_PORT)
    command.add_argument(Flag.METRICS_PORT, type=int, default=METRICS_PORT)
    command.add_argument(
        Flag.STARTUP_TIMEOUT, type=float, default=settings.STARTUP_SECONDS, help="seconds to ready"
    )
    command.add_argument(
        Flag.GATEWAY_PORT,
        type=int,
        default=GATEWAY_PORT,
        help="the gateway beside, which drains first; 0 when there is none",
    )
    command.add_argument(Flag.TERMINATION_LOG, type=Path, help="also write an error here")
    command.set_defaults(command=_serve)


def _add_gateway(commands: "Commands") -> None:
    command = commands.add_parser(Command.GATEWAY, help="answer OpenAI requests through Triton")
    _add_documents(command)
    command.add_argument(Flag.TRITON, default=f"127.0.0.1:{GRPC_PORT}", help="host:port")
    command.add_argument(
        "--openai-server",
        type=_server_address,
        metavar="URL",
        help="of backends that are OpenAI servers: another one than that of the pod, "
        "http://HOST:PORT, to debug a gateway without a pod",
    )
    command.add_argument(
        Flag.SERVER_METRICS,
        default=f"127.0.0.1:{METRICS_PORT}",
        help="host:port of the server's metrics, shown after the gateway's own; empty: not shown",
    )
    command.add_argument(Flag.ADDRESS, default="127.0.0.1", help="0.0.0.0 in a pod")
    command.add_argument(Flag.PORT, type=int, default=GATEWAY_PORT)
    command.add_argument(Flag.AUTH_TOKEN_FILE, type=Path, help="bearer token clients must send")
    command.set_defaults(command=_gateway)


def _server_address(text: str) -> str:
    """Return host:port of a URL without a path, which `/v1` is added to."""
    found = urlsplit(text if "//" in text else f"//{text}")
    if found.scheme in {"", "http"} and found.path in {"", "/"} and found.netloc.count(":"):
        return found.netloc
    raise argparse.ArgumentTypeError(
        f"{text!r} is no server's address; expected http://HOST:PORT, without a path"
    )


def _add_compare(commands: "Commands") -> None:
    command = commands.add_parser(
        Command.COMPARE, help="compare a served model with transformers in float32"
    )
    _add_documents(command)
    command.add_argument(Flag.URL, required=True, help="of the model, for example http://HOST/v1")
    command.add_argument(Flag.AUTH_TOKEN_FILE, type=Path, help="bearer tokens; the first is sent")
    command.add_argument(Flag.TERMINATION_LOG, type=Path, help="also write the report here")
    command.set_defaults(command=_compare)


def _add_documents(command: argparse.ArgumentParser) -> None:
    command.add_argument(Flag.MANIFEST, type=Path, required=True, help="the engine's manifest.json")
    command.add_argument(Flag.SERVING, type=Path, required=True, help="ServingPlan as JSON")


def _inspect(arguments: argparse.Namespace) -> int:
    from mm_runtime.adapters.facts import with_adapters  # noqa: PLC0415 (see module)
    from mm_runtime.doctor.image_check import check_inspect_image  # noqa: PLC0415
    from mm_runtime.engine_build.commands.verify_weights import refuse_other_class  # noqa: PLC0415
    from mm_runtime.inspect.checkpoint import InspectOptions  # noqa: PLC0415
    from mm_runtime.inspect.report import facts_report, refusal_report  # noqa: PLC0415
    from mm_runtime.inspect.source import inspect_source  # noqa: PLC0415

    options = InspectOptions(arguments.family, arguments.allow_pickle, arguments.trust_remote_code)
    code = ExitCode.OK
    try:
        check_inspect_image(arguments.source, *(source for _, source in arguments.adapter))
        facts = inspect_source(arguments.source, options, compare=refuse_other_class)
        text = facts_report(with_adapters(facts, arguments.adapter))
    except InspectRefusedError as refused:
        log.error("%s: %s", refused.reason, refused.message)  # noqa: TRY400 (for a person)
        text = refusal_report(refused)
        code = refused.exit_code
    print(text)
    write_termination_message(arguments.termination_log, text)
    return code


def _build(arguments: argparse.Namespace) -> int:
    from mm_runtime.adapters.files import sourced  # noqa: PLC0415 (see module)
    from mm_runtime.backends import steps  # noqa: PLC0415
    from mm_runtime.base.stop_signal import StopSignal  # noqa: PLC0415
    from mm_runtime.doctor.image_check import image_failure  # noqa: PLC0415
    from mm_runtime.engine_build.build_paths import BuildPaths  # noqa: PLC0415
    from mm_runtime.engine_build.run import BuildOptions, build  # noqa: PLC0415
    from mm_runtime.store.directory import DirectoryStore  # noqa: PLC0415

    read = read_document(BuildPlan, arguments.plan, arguments.plan_sha256)
    adapters = dict(arguments.adapter)
    plan = sourced(read, adapters)
    if not arguments.dry_run and (
        refused := image_failure(plan, arguments.source, arguments.store, *adapters.values())
    ):
        return _built(arguments, refused, ExitCode.PERMANENT)
    store = open_store(arguments.store)
    is_bucket = not isinstance(store, DirectoryStore)
    directory = arguments.work if is_bucket else Path(arguments.store)
    if directory is None:
        raise PermanentError(
            f"{arguments.store} is a bucket: name a directory to build in, --work."
        )
    if arguments.dry_run:
        paths = BuildPaths.of(directory, plan)
        for number, step in enumerate(steps(plan), start=1):
            print(f"{number}. {step.name}: {step.purpose}")
            print(f"   {shlex.join(step.argv('python3', arguments.source, paths))}")
        return ExitCode.OK
    options = BuildOptions(
        plan=plan,
        source=arguments.source,
        store=directory,
        steps=steps,
        step_seconds=arguments.step_timeout,
        trtllm_root=arguments.trtllm_root,
        termination_log=arguments.termination_log,
        holder=arguments.holder,
    )
    with StopSignal() as stop:
        if is_bucket:
            from mm_runtime.store.building import build_into  # noqa: PLC0415 (see module)

            result, code = build_into(store, options, stop)
        else:
            result, code = build(options, stop)
        return _built(arguments, result, code)


def _built(arguments: argparse.Namespace, result: BuildResult, code: ExitCode) -> int:
    from mm_runtime.engine_build.progress import build_report  # noqa: PLC0415 (see module)

    text = build_report(result)
    print(text)
    write_termination_message(arguments.termination_log, text)
    return code


def _serve(arguments: argparse.Namespace) -> int:
    from mm_api.documents.server_state import Role  # noqa: PLC0415
    from mm_runtime.backends import BACKENDS  # noqa: PLC0415
    from mm_runtime.launch.options import ServeOptions  # noqa: PLC0415 (see module)
    from mm_runtime.launch.pod_address import listening_address  # noqa: PLC0415
    from mm_runtime.launch.serve import serve  # noqa: PLC0415

    ports = settings.Ports(
        address=listening_address(arguments.address),
        http=arguments.http_port,
        grpc=arguments.grpc_port,
        metrics=arguments.metrics_port,
        grpc_address=arguments.grpc_address,
        page_address=arguments.page_address,
    )
    options = ServeOptions(
        manifest=arguments.manifest,
        serving_path=arguments.serving,
        serving=read_document(ServingPlan, arguments.serving),
        repository=arguments.repository,
        ports=ports,
        startup_seconds=arguments.startup_timeout,
        gateway_port=arguments.gateway_port,
        role=Role(arguments.role),
    )
    return serve(options, BACKENDS[options.serving.backend].prepare_server)


def _gateway(arguments: argparse.Namespace) -> int:
    from mm_runtime.backends import BACKENDS  # noqa: PLC0415
    from mm_runtime.gateway.backends.engine import Servers  # noqa: PLC0415
    from mm_runtime.gateway.main import GatewayOptions, run  # noqa: PLC0415 (see module)

    return run(
        GatewayOptions(
            manifest=arguments.manifest,
            serving=arguments.serving,
            backends=BACKENDS,
            servers=Servers(arguments.triton, arguments.openai_server or ""),
            server_metrics=arguments.server_metrics,
            address=arguments.address,
            port=arguments.port,
            auth_token_file=arguments.auth_token_file,
        )
    )


def _compare(arguments: argparse.Namespace) -> int:
    from mm_runtime.base.engine_python import VARIABLE  # noqa: PLC0415 (see module)

    if python := os.environ.get(VARIABLE):  # it has torch and transformers
        others = {name: value for name, value in os.environ.items() if name != VARIABLE}
        command = [python, "-m", "mm_runtime", *arguments.given]
        return subprocess.run(command, env=others, check=False).returncode
    from mm_runtime.comparison.compare import CompareOptions, compared  # noqa: PLC0415

    options = CompareOptions(
        manifest=read_document(EngineManifest, arguments.manifest),
        directory=arguments.manifest.parent,
        serving=read_document(ServingPlan, arguments.serving),
        url=arguments.url,
        token=_first_token(arguments.auth_token_file),
    )
    text = compared(options).to_json()
    print(text)
    write_termination_message(arguments.termination_log, text)
    return ExitCode.OK


def _first_token(file: Path | None) -> str:
    lines = file.read_text(encoding="utf-8").split("\n") if file else []
    return next((line.split()[-1] for line in lines if line.strip()), "")


def name_user(environment: MutableMapping[str, str]) -> None:
    """Set USER where neither the environment nor /etc/passwd, of NVIDIA's images, names the user.

    Torch 2.8 to 2.11 looks it up while it is imported, and fails without one.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):  # the latter since Python 3.13
        environment["USER"] = "nonroot"
