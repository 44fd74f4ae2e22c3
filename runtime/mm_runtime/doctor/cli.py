"""`mm-runtime doctor`: parse, look, print."""

import argparse
from typing import TYPE_CHECKING

from mm_api.backends import BACKENDS, DEFAULT
from mm_api.contract import Command, ExitCode
from mm_runtime.doctor.need import PURPOSES

if TYPE_CHECKING:
    from mm_runtime.doctor.found import Found
    from mm_runtime.doctor.need import Need


def add_doctor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Define the command."""
    text = "say whether this image, on this node, can inspect, build or serve"
    command = commands.add_parser(Command.DOCTOR, help=text, description=text)
    command.add_argument(
        "--for",
        dest="purposes",
        action="append",
        choices=PURPOSES,
        default=[],
        help="may be given several times; default: all",
    )
    command.add_argument(
        "--backend",
        choices=tuple(BACKENDS),
        help="default: TensorRT where TensorRT-LLM is installed, else Reference",
    )
    command.add_argument("--gpu", action="store_true", help="backend Reference on CUDA")
    command.add_argument("--mps", action="store_true", help="spec.vision.sharing is MPS")
    command.add_argument(
        "--address",
        dest="addresses",
        action="append",
        default=[],
        metavar="SOURCE",
        help="a source or store, hf://..., s3://... or https://...; may be given several times",
    )
    command.add_argument("-o", "--output", choices=("text", "json"), default="text")
    command.set_defaults(command=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    from mm_runtime.doctor.checks import examine  # noqa: PLC0415 (see mm_runtime.cli)
    from mm_runtime.doctor.observe import observe  # noqa: PLC0415

    found = observe()
    report = examine(_need(arguments, found), found)
    print(report.to_json(indent=2) if arguments.output == "json" else report.text())
    return ExitCode.PERMANENT if report.failures else ExitCode.OK


def _need(arguments: argparse.Namespace, found: "Found") -> "Need":
    from mm_runtime.doctor.need import Need  # noqa: PLC0415 (see mm_runtime.cli)

    has = "tensorrt_llm" in found.engine.packages
    likely = next(one.name for one in BACKENDS.values() if one.uses_trtllm) if has else DEFAULT
    backend = BACKENDS[arguments.backend or likely]
    return Need(
        purposes=frozenset(arguments.purposes or PURPOSES),
        backend=backend,
        gpu=arguments.gpu,
        mps=arguments.mps,
        onnx=backend.runs_checkpoints and not arguments.gpu,
        addresses=tuple(arguments.addresses),
    )
